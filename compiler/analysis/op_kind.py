"""Sorts operations into the classes that the cost model tells apart, and says which of them XLA fuses."""

from __future__ import annotations

from collections.abc import Mapping

from ...cost_models.compute import OpKind
from ..ir import Node
from .user_shardings import CONSTRAINT

_MATMUL = frozenset({"dot_general", "ragged_dot", "ragged_dot_general"})
_CONVOLUTION = frozenset({"conv_general_dilated"})
_REDUCTION_PREFIXES = ("reduce_", "arg", "cum")
_REDUCTIONS = frozenset({"reduce", "select_and_gather_add", "select_and_scatter_add"})

# Functions of single elements that XLA computes inside a loop. What iterates until it converges (``igamma``)
# or calls a library is not among them.
_ELEMENTWISE = frozenset(
    {
        *("abs", "add", "add_any", "ceil", "clamp", "conj", "div", "floor", "integer_pow", "max", "min"),
        *("mul", "mulhi", "name", "neg", "nextafter", "rem", "round", "sign", "square", "sub"),
        *("complex", "convert_element_type", "imag", "real", "reduce_precision", "select_n"),
        *("eq", "eq_to", "ge", "gt", "is_finite", "le", "le_to", "lt", "lt_to", "ne"),
        *("and", "clz", "not", "or", "population_count", "xor"),
        *("shift_left", "shift_right_arithmetic", "shift_right_logical"),
        *("cbrt", "exp", "exp2", "expm1", "log", "log1p", "logistic", "pow", "rsqrt", "sqrt"),
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh"),
        *("cos", "cosh", "sin", "sinh", "tan", "tanh"),
        *("bessel_i0e", "bessel_i1e", "digamma", "erf", "erf_inv", "erfc", "lgamma", "polygamma", "zeta"),
        # A counter's hash at each place.
        "random_bits",
    }
)
_FREE = frozenset(
    {
        *("broadcast_in_dim", "reshape", "squeeze", "expand_dims", "iota", "empty", "copy", "copy_p"),
        *("stop_gradient", "optimization_barrier", "bitcast_convert_type", "device_put"),
        *("random_wrap", "random_unwrap", "random_clone"),
    }
)
_MOVEMENT = frozenset(
    {
        *("transpose", "slice", "pad", "concatenate", "rev", "split", "stack", "unstack", "tile"),
        *("gather", "dynamic_slice", "dynamic_update_slice", "sort", "top_k", "approx_top_k"),
        *("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"),
    }
)
_FUSED_MOVEMENT = frozenset({"transpose", "slice", "pad", "rev"})


_KINDS: Mapping[str, OpKind] = {
    **dict.fromkeys(_MATMUL, OpKind.MATMUL),
    **dict.fromkeys(_CONVOLUTION, OpKind.CONVOLUTION),
    **dict.fromkeys(_REDUCTIONS, OpKind.REDUCTION),
    **dict.fromkeys(_ELEMENTWISE, OpKind.ELEMENTWISE),
    **dict.fromkeys((*_FREE, *_MOVEMENT, CONSTRAINT), OpKind.DATA_MOVEMENT),
}


def op_kind(node: Node) -> OpKind:
    """The cost class of an operation; what is in none that is known here is opaque, a kernel of its own."""
    if node.regions:
        return OpKind.OPAQUE
    kind = _KINDS.get(node.op)
    if kind is None:
        return OpKind.REDUCTION if node.op.startswith(_REDUCTION_PREFIXES) else OpKind.OPAQUE
    return kind


def is_fusible(node: Node) -> bool:
    """Whether XLA merges the operation into the loops of its neighbours."""
    if node.op in _FREE or node.op in _FUSED_MOVEMENT:
        return True
    return op_kind(node) is OpKind.ELEMENTWISE and not node.effectful


def writes_in_place(node: Node) -> bool:
    """Whether XLA may write a result over an operand of the same size that is read there last."""
    return is_fusible(node) or node.op.startswith("scatter") or node.op == "dynamic_update_slice"


def fuses_operands(node: Node) -> bool:
    """Whether XLA computes the operands inside the operation's own loop: fused operations and reductions."""
    return is_fusible(node) or op_kind(node) is OpKind.REDUCTION
