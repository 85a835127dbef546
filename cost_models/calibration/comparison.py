"""Predicted against measured, point by point and over all."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ..cluster import Cluster
from .points import Measurement, predicted_s


@dataclass(frozen=True)
class ComparedPoint:
    """One measured point beside its prediction.

    Attributes:
        operation: what was run: the operation and element type, or the kind of collective and its mesh, axes
            that do not communicate in brackets.
        size_bytes: bytes of one operand, or the full bytes of a collective.
        predicted_s: seconds by the cost model.
        measured_s: seconds measured.
    """

    operation: str
    size_bytes: float
    predicted_s: float
    measured_s: float

    @property
    def ratio(self) -> float:
        """Measured over predicted: above 1 the model is too fast."""
        return self.measured_s / self.predicted_s


@dataclass(frozen=True)
class Comparison:
    """All points of a sweep.

    Attributes:
        points: at least one.
    """

    points: tuple[ComparedPoint, ...]

    @property
    def median_ratio(self) -> float:
        """The middle of the ratios."""
        return statistics.median(point.ratio for point in self.points)

    @property
    def worst(self) -> ComparedPoint:
        """The point whose ratio is furthest from 1, by its factor in either direction."""
        return max(self.points, key=lambda point: abs(math.log(point.ratio)))

    @property
    def worst_ratio(self) -> float:
        """The ratio of that point."""
        return self.worst.ratio


def compare(measurements: Sequence[Measurement], cluster: Cluster) -> Comparison:
    """Prices measured points on a cluster.

    Args:
        measurements: at least one.
        cluster: whose record predicts.
    """
    return Comparison(
        tuple(
            ComparedPoint(m.point.series, m.point.size_bytes, predicted_s(m.point, cluster), m.seconds)
            for m in measurements
        )
    )
