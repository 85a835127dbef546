"""Runs a sweep on the devices at hand, within a time limit."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import jax
import numpy as np
from jax.sharding import AxisType, Mesh

from ...cost_models.calibration.points import CollectivePoint, Measurement, Point, predicted_s
from ...cost_models.calibration.sweep import Series, sweep
from ...cost_models.cluster import Cluster
from ...cost_models.mesh import default_axis_names
from .steps import step_of
from .timing import Stopwatch

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Effort:
    """How long and how often to measure.

    Attributes:
        quick: whether to take the small sweep.
        repeats: runs of a program, of which the median counts.
        chain_s: seconds of one program.
        longest_step_s: a series ends at the size where one operation takes longer.
        limit_s: wall time after which no further point is begun.
    """

    quick: bool
    repeats: int
    chain_s: float
    longest_step_s: float
    limit_s: float


QUICK = Effort(quick=True, repeats=3, chain_s=0.005, longest_step_s=0.05, limit_s=30.0)
FULL = Effort(quick=False, repeats=9, chain_s=0.02, longest_step_s=0.25, limit_s=300.0)


@dataclass(frozen=True)
class SweepResult:
    """What a sweep gave.

    Attributes:
        measurements: the points that were measured, in the sweep's order.
        planned: points the sweep has.
        repeats: runs of each.
        ended_early: whether the time limit ended it.
    """

    measurements: tuple[Measurement, ...]
    planned: int
    repeats: int
    ended_early: bool


def measure_sweep(cluster: Cluster, effort: Effort = FULL, progress: Progress | None = None) -> SweepResult:
    """Measures the points of a cluster's sweep on the first of the local devices.

    Small sizes of all series come first: a sweep that is cut short has something of everything.

    Args:
        cluster: as many devices as there are here, or fewer; its record sizes the programs.
        effort: how long and how often.
        progress: called with a line of text before each point.
    """
    end = time.monotonic() + effort.limit_s
    series = sweep(cluster, quick=effort.quick)
    order = list(_smallest_first(series))
    runner = _Runner(cluster, effort)
    measured: dict[Point, Measurement] = {}
    ended_early = False
    for position, point in enumerate(order):
        if ended_early := time.monotonic() > end:
            break
        if progress:
            progress(f"{point.series}, {position + 1} of {len(order)}")
        if (found := runner.measure(point)) is not None:
            measured[point] = found
    kept = tuple(measured[point] for point in itertools.chain(*series) if point in measured)
    return SweepResult(kept, len(order), effort.repeats, ended_early)


def _smallest_first(series: Sequence[Series]) -> Iterator[Point]:
    for points in itertools.zip_longest(*series):
        yield from (point for point in points if point is not None)


class _Runner:
    """Measures points, a stopwatch for each mesh, and ends a series where its operations take too long.

    The record may be far off: how far it was for the last point sizes the next program.
    """

    def __init__(self, cluster: Cluster, effort: Effort) -> None:
        self._cluster, self._effort = cluster, effort
        self._ended: set[str] = set()
        self._pace: dict[type[Point], float] = {}
        self._stopwatch = lru_cache(maxsize=None)(self._new_stopwatch)

    def measure(self, point: Point) -> Measurement | None:
        """The measurement, or None where the series has ended or the time is lost in that of the start."""
        if point.series in self._ended:
            return None
        shape = point.mesh_shape if isinstance(point, CollectivePoint) else (self._cluster.num_devices,)
        names = default_axis_names(len(shape))
        model_s = predicted_s(point, self._cluster)
        expected_s = model_s * self._pace.get(type(point), 1.0)
        seconds = self._stopwatch(shape).seconds(step_of(point, names), expected_s)
        if seconds is None:
            return None
        self._pace[type(point)] = seconds / model_s
        if seconds > self._effort.longest_step_s:
            self._ended.add(point.series)
        return Measurement(point, seconds, self._effort.repeats)

    def _new_stopwatch(self, shape: tuple[int, ...]) -> Stopwatch:
        devices = np.array(jax.devices()[: self._cluster.num_devices], dtype=object).reshape(shape)
        mesh = Mesh(devices, default_axis_names(len(shape)), axis_types=(AxisType.Auto,) * len(shape))
        return Stopwatch.on(mesh, self._effort.repeats, self._effort.chain_s)
