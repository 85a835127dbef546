"""What a sweep measures: one operation of one size, priced by the cost model it is to calibrate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from ..cluster import Cluster
from ..collectives import Collective, collective_time_s
from ..compute import OpCost, OpKind, compute_time_s, matmul_efficiency
from ..hardware_record import Hardware
from ..mesh import GroupLevels, LogicalMesh, default_axis_names, group_levels

ITEM_BYTES = {"f32": 4, "f32_default": 4, "bf16": 2, "f16": 2}
"""Bytes of an element, by key of `peak_flops`: the element types that are measured."""

VECTOR_ROUNDS = 64
"""Rounds of `x = max(a x + b, c)` in one vector operation: a fused multiply-add for each plain operation."""

_UPDATING = frozenset({Collective.ALL_GATHER, Collective.REDUCE_SCATTER})


class Operation(StrEnum):
    """Operations of the compute sweeps, each run by every device on its own data."""

    MATMUL = "matmul"
    SCALE = "scale"
    ADD = "add"
    VECTOR = "vector"


_PER_ELEMENT = {
    Operation.SCALE: (2, 2),
    Operation.ADD: (1, 3),
    Operation.VECTOR: (3 * VECTOR_ROUNDS, 2),
}  # floating-point operations, and elements read or written


@dataclass(frozen=True)
class ComputePoint:
    """An operation of one size.

    Attributes:
        operation: MATMUL is n x n x n; SCALE is a x + b; ADD is x + y; VECTOR many operations an element.
        dtype: key of `peak_flops`, such as "bf16".
        size: n of a product, elements of an array otherwise.
    """

    operation: Operation
    dtype: str
    size: int

    @property
    def cost(self) -> OpCost:
        """The work: 2 n^3 operations and 3 n^2 elements for a product."""
        item_bytes = ITEM_BYTES[self.dtype]
        if self.operation is Operation.MATMUL:
            return OpCost(2.0 * self.size**3, 3.0 * self.size**2 * item_bytes, self.dtype, OpKind.MATMUL)
        flops, elements = _PER_ELEMENT[self.operation]
        return OpCost(
            float(flops * self.size), float(elements * self.size * item_bytes), self.dtype, OpKind.ELEMENTWISE
        )

    def utilisation(self, hardware: Hardware) -> float:
        """Fraction of the matrix unit doing useful work; 1 for what does not use it."""
        if self.operation is Operation.MATMUL:
            return matmul_efficiency(self.size, self.size, self.size, hardware)
        return 1.0

    @property
    def series(self) -> str:
        """Name of the sweep the point belongs to."""
        return f"{self.operation} {self.dtype}"

    @property
    def size_bytes(self) -> float:
        """Bytes of one operand."""
        count = self.size**2 if self.operation is Operation.MATMUL else self.size
        return float(count * ITEM_BYTES[self.dtype])


@dataclass(frozen=True)
class CollectivePoint:
    """A collective of one size over some axes of a mesh of all devices; all groups run it at once.

    Attributes:
        kind: the operation.
        full_bytes: as `collective_time_s` counts them.
        mesh_shape: sizes of the mesh axes, in the cluster's order of devices.
        axes: indices of those that communicate.
    """

    kind: Collective
    full_bytes: int
    mesh_shape: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def group_size(self) -> int:
        """Devices in a group."""
        return math.prod(self.mesh_shape[axis] for axis in self.axes)

    @property
    def updates(self) -> int:
        """Small kernels timed with it, a floor each.

        The result of an all-gather or reduce-scatter has another shape than its operand, so a one-element
        update is what makes the next one wait for it.
        """
        return int(self.kind in _UPDATING)

    def levels(self, cluster: Cluster) -> GroupLevels:
        """Links that its groups use."""
        return group_levels(self.mesh(cluster), self.axes)

    def mesh(self, cluster: Cluster) -> LogicalMesh:
        """The mesh it runs on."""
        return LogicalMesh(cluster, self.mesh_shape, default_axis_names(len(self.mesh_shape)))

    @property
    def series(self) -> str:
        """Name of the sweep the point belongs to: the kind, and the axes of the mesh that communicate."""
        shape = "x".join(str(n) if axis in self.axes else f"({n})" for axis, n in enumerate(self.mesh_shape))
        return f"{self.kind} {shape}"

    @property
    def size_bytes(self) -> float:
        """The full bytes."""
        return float(self.full_bytes)


Point = ComputePoint | CollectivePoint


@dataclass(frozen=True)
class Measurement:
    """A point and the seconds one operation took.

    Attributes:
        point: what was run.
        seconds: median over `repeats` runs.
        repeats: runs.
    """

    point: Point
    seconds: float
    repeats: int


def predicted_s(point: Point, cluster: Cluster) -> float:
    """Seconds the cost model gives a point, everything that is timed with it included."""
    hardware = cluster.hardware
    if isinstance(point, ComputePoint):
        return compute_time_s(point.cost, hardware, tile_utilisation=point.utilisation(hardware))
    collective_s = collective_time_s(point.kind, point.full_bytes, point.axes, point.mesh(cluster))
    return collective_s + point.updates * hardware.kernel_floor_s
