"""Sorts operations into the classes that the cost model tells apart, and says which of them XLA fuses."""

from __future__ import annotations

from ...cost_models.compute import OpKind
from ..ir import Node
from .user_shardings import CONSTRAINT, SHARD_MAP

_MATMUL = frozenset({"dot_general", "ragged_dot", "ragged_dot_general"})
_CONVOLUTION = frozenset({"conv_general_dilated"})
_REDUCTION_PREFIXES = ("reduce_", "arg", "cum")
_FREE = frozenset(
    {
        "broadcast_in_dim",
        "reshape",
        "squeeze",
        "expand_dims",
        "iota",
        "copy",
        "copy_p",
        "stop_gradient",
        "optimization_barrier",
        "bitcast_convert_type",
    }
)
_MOVEMENT = frozenset(
    {
        "transpose",
        "slice",
        "pad",
        "concatenate",
        "rev",
        "gather",
        "scatter",
        "scatter-add",
        "scatter-mul",
        "scatter-min",
        "scatter-max",
        "dynamic_slice",
        "dynamic_update_slice",
        "sort",
        "top_k",
        "split",
    }
)
_FUSED_MOVEMENT = frozenset({"transpose", "slice", "pad", "rev"})
_OPAQUE = frozenset(
    {"pallas_call", "ffi_call", "custom_call", "pure_callback", "io_callback", "debug_callback"}
)


def op_kind(node: Node) -> OpKind:
    """The cost class of an operation without regions."""
    if node.op in _MATMUL:
        return OpKind.MATMUL
    if node.op in _CONVOLUTION:
        return OpKind.CONVOLUTION
    if node.op in _OPAQUE or node.op == SHARD_MAP or node.regions:
        return OpKind.OPAQUE
    if node.op in _MOVEMENT or node.op in _FREE or node.op == CONSTRAINT:
        return OpKind.DATA_MOVEMENT
    return OpKind.REDUCTION if node.op.startswith(_REDUCTION_PREFIXES) else OpKind.ELEMENTWISE


def is_fusible(node: Node) -> bool:
    """Whether XLA merges the operation into the loops of its neighbours."""
    if node.op in _FREE or node.op in _FUSED_MOVEMENT:
        return True
    return op_kind(node) is OpKind.ELEMENTWISE and not node.effectful


def fuses_operands(node: Node) -> bool:
    """Whether XLA computes the operands inside the operation's own loop: fused operations and reductions."""
    return is_fusible(node) or op_kind(node) is OpKind.REDUCTION
