"""Seconds of each strategy of an operation: its share of the work, and the collectives inside it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...cost_models.collectives import collective_time_s
from ...cost_models.compute import OpCost, compute_time_s
from ...cost_models.mesh import LogicalMesh
from ..analysis.flops import node_flops
from ..analysis.fusion import FusedOperation
from ..analysis.op_kind import is_fusible, op_kind
from ..analysis.user_shardings import CONSTRAINT
from .strategies import Strategy


def strategy_costs(
    operation: FusedOperation, strategies: Sequence[Strategy], mesh: LogicalMesh
) -> NDArray[np.float64]:
    """Seconds of each strategy on one device, shape ``[len(strategies)]``.

    The operation reads its operands and writes its materialised results once and starts one kernel; one that
    writes nothing is part of whatever reads it and starts none.

    Args:
        operation: the operation.
        strategies: its strategies.
        mesh: the mesh.
    """
    if operation.anchor.op == CONSTRAINT:
        return np.zeros(len(strategies))
    flops = [node_flops(node) for node in operation.nodes]
    kind = op_kind(operation.anchor)
    dtype = _compute_dtype(operation)
    fused = is_fusible(operation.anchor) and not operation.materialised

    def seconds(strategy: Strategy) -> float:
        work = sum(f / n for f, n in zip(flops, strategy.shards, strict=True))
        cost = OpCost(work, _local_bytes(operation, strategy, mesh), dtype, kind)
        communication = sum(collective_time_s(s.kind, s.full_bytes, s.axes, mesh) for s in strategy.steps)
        return compute_time_s(cost, mesh.cluster.hardware, fused=fused) + communication

    return np.array([seconds(s) for s in strategies])


def _local_bytes(operation: FusedOperation, strategy: Strategy, mesh: LogicalMesh) -> float:
    read = zip(operation.operands, strategy.operands, strict=True)
    written = [
        (value, layout)
        for value, layout in zip(operation.results, strategy.results, strict=True)
        if value in operation.materialised
    ]
    return sum(layout.local_bytes(value.type, mesh.shape) for value, layout in (*read, *written))


def _compute_dtype(operation: FusedOperation) -> str:
    # A matmul's speed follows what it reads, not what it accumulates in.
    values = [*operation.operands, *operation.results]
    return values[0].type.dtype if values else "float32"
