r"""Start-up, latency and bandwidth of the links, from sweeps of collectives.

Every time of `cost_models.collectives` is, for a group that uses one level of links only,

    t = c f_c + c_a a + c_w / W

in the start-up floor f_c, the latency a and the achieved bandwidth W of that level. The coefficients are what
the formulas there give with one number at 1 and the others free, so each kind, size and group adds an
equation by the very rules that plans are priced with. Small sizes of kinds with different numbers of steps
tell f_c from a.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..cluster import Cluster
from ..collectives import Collective, collective_time_s
from ..hardware_record import Hardware, Link
from .points import CollectivePoint, Measurement
from .regression import robust_fit
from .split import LEAST_RATE_INVERSE, LEAST_TIME_S, split_rate

_FREE = Link(bandwidth=math.inf, efficiency=1.0, alpha_s=0.0)
_KEYS = ("kernel.collective_floor_s", "link.inner.alpha_s", "link.inner", "link.outer.alpha_s", "link.outer")
_LEAST = np.array([LEAST_TIME_S, LEAST_TIME_S, LEAST_RATE_INVERSE, LEAST_TIME_S, LEAST_RATE_INVERSE])


def fit_collectives(measurements: Sequence[Measurement], cluster: Cluster) -> dict[str, float]:
    """Numbers of the record that measured collectives determine.

    Args:
        measurements: of any points; compute is passed over.
        cluster: its links' bandwidths divide the achieved ones into bandwidth and efficiency; its kernel
            floor, fitted before, is that of the small kernels timed with some collectives.

    Returns:
        Values by key (`kernel.collective_floor_s`, `link.inner.alpha_s`, ...). What no group measures, such
        as links between hosts of a single host, is absent.
    """
    rows = [
        (m.point, m.seconds)
        for m in measurements
        if isinstance(m.point, CollectivePoint) and _is_linear(m.point, cluster)
    ]
    if not rows:
        return {}
    features = np.array([_coefficients(point, cluster) for point, _ in rows])
    used = np.flatnonzero(features.any(axis=0))
    fitted = robust_fit(
        features[:, used],
        np.array([seconds for _, seconds in rows]),
        np.array([point.updates * cluster.hardware.kernel_floor_s for point, _ in rows]),
        _LEAST[used],
    )
    return _numbers(
        {_KEYS[column]: value for column, value in zip(used, fitted.tolist(), strict=True)}, cluster
    )


def _is_linear(point: CollectivePoint, cluster: Cluster) -> bool:
    """Whether one level of links takes all the time, by one rule at every size.

    Between three hosts or more, an all-reduce takes the tree or the ring, as the size has it.
    """
    levels = point.levels(cluster)
    if levels.outer == 1:
        return True
    return levels.inner == 1 and (levels.outer == 2 or point.kind is not Collective.ALL_REDUCE)


def _coefficients(point: CollectivePoint, cluster: Cluster) -> list[float]:
    """Seconds of the point with one of `_KEYS` at 1 (a bandwidth of 1 B/s) and the others free."""
    free = replace(cluster.hardware, collective_floor_s=0.0, inner=_FREE, outer=_FREE)
    latency, rate = replace(_FREE, alpha_s=1.0), replace(_FREE, bandwidth=1.0)
    alone = (
        replace(free, collective_floor_s=1.0),
        replace(free, inner=latency),
        replace(free, inner=rate),
        replace(free, outer=latency),
        replace(free, outer=rate),
    )
    return [_seconds(point, cluster, hardware) for hardware in alone]


def _seconds(point: CollectivePoint, cluster: Cluster, hardware: Hardware) -> float:
    mesh = point.mesh(replace(cluster, hardware=hardware))
    return collective_time_s(point.kind, point.full_bytes, point.axes, mesh)


def _numbers(costs: dict[str, float], cluster: Cluster) -> dict[str, float]:
    numbers = {key: cost for key, cost in costs.items() if key.endswith("_s")}
    links = {"link.inner": cluster.hardware.inner, "link.outer": cluster.hardware.outer}
    for level, link in links.items():
        if level in costs:
            keys = (f"{level}.bandwidth", f"{level}.efficiency")
            numbers |= split_rate(1 / costs[level], link.bandwidth, *keys)
    return numbers
