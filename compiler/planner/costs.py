"""Seconds of each strategy of an operation: its share of the work, and the collectives inside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...cost_models.collectives import collective_time_s
from ...cost_models.compute import OpCost, compute_time_s
from ...cost_models.mesh import LogicalMesh
from ..analysis.flops import node_flops
from ..analysis.op_kind import is_fusible, op_kind
from ..ir import Literal, Node
from .strategies import Strategy


@dataclass(frozen=True)
class Traffic:
    """Which of a node's operands and results go through memory rather than stay in a fused loop."""

    operands: tuple[bool, ...]
    results: tuple[bool, ...]


def strategy_costs(
    node: Node, strategies: Sequence[Strategy], traffic: Traffic, mesh: LogicalMesh
) -> NDArray[np.float64]:
    """Seconds of each strategy on one device, shape ``[len(strategies)]``.

    Args:
        node: the operation.
        strategies: its strategies.
        traffic: what goes through memory; a fused operation pays only for that and starts no kernel of its
            own.
        mesh: the mesh.
    """
    flops = node_flops(node)
    kind = op_kind(node)
    dtype = _compute_dtype(node)
    fused = is_fusible(node) and not any(traffic.results)

    def seconds(strategy: Strategy) -> float:
        moved = _local_bytes(node, strategy, traffic, mesh)
        work = compute_time_s(
            OpCost(flops / strategy.num_shards, moved, dtype, kind), mesh.cluster.hardware, fused=fused
        )
        return work + sum(collective_time_s(s.kind, s.full_bytes, s.axes, mesh) for s in strategy.steps)

    return np.array([seconds(s) for s in strategies])


def _local_bytes(node: Node, strategy: Strategy, traffic: Traffic, mesh: LogicalMesh) -> float:
    read = zip(node.operands, strategy.operands, traffic.operands, strict=True)
    written = zip(node.results, strategy.results, traffic.results, strict=True)
    return sum(layout.local_bytes(v.type, mesh.shape) for v, layout, moves in (*read, *written) if moves)


def _compute_dtype(node: Node) -> str:
    # A matmul's speed follows what it reads, not what it accumulates in.
    typed = [o for o in node.operands if not isinstance(o, Literal)] or [*node.results]
    return typed[0].type.dtype if typed else "float32"
