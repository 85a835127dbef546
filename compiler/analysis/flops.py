"""Floating-point operations of one node, counted on whole (unsharded) arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ..ir import Node

# Rough cost of a transcendental in units of a multiply; XLA's own cost analysis counts them apart from flops.
_TRANSCENDENTAL_FLOPS = 8.0
_TRANSCENDENTAL = frozenset(
    {
        *("exp", "exp2", "expm1", "log", "log1p", "tanh", "logistic", "sin", "cos", "tan", "pow", "sqrt"),
        *("rsqrt", "cbrt", "erf", "erfc", "erf_inv", "atan2", "lgamma", "digamma"),
    }
)
_NO_FLOPS = frozenset(
    {
        *("broadcast_in_dim", "reshape", "squeeze", "expand_dims", "iota", "copy", "transpose", "slice"),
        *("pad", "rev", "split"),
    }
)


def node_flops(node: Node) -> float:
    """Flops of an operation without regions; a multiply-add counts as two."""
    if node.op in _NO_FLOPS or not node.results:
        return 0.0
    rule = _RULES.get(node.op)
    return rule(node) if rule else _elementwise(node)


def _elementwise(node: Node) -> float:
    elements = max([v.type.num_elements for v in (*node.operands, *node.results)])
    return float(elements) * (_TRANSCENDENTAL_FLOPS if node.op in _TRANSCENDENTAL else 1.0)


def _dot(node: Node) -> float:
    (contracted, _), _ = node.params["dimension_numbers"]
    lhs = node.operands[0].type.shape
    return 2.0 * node.results[0].type.num_elements * math.prod(lhs[d] for d in contracted)


def _convolution(node: Node) -> float:
    # Each output element multiplies one window of the kernel: all kernel dims but the output features.
    kernel = node.operands[1].type
    out_features = kernel.shape[node.params["dimension_numbers"].rhs_spec[0]]
    return 2.0 * node.results[0].type.num_elements * kernel.num_elements / max(out_features, 1)


def _sort(node: Node) -> float:
    # Comparison sort of each row: n log2 n.
    type_ = node.operands[0].type
    length = type_.shape[node.params.get("dimension", -1)] if type_.shape else 1
    return type_.num_elements * max(1.0, math.log2(max(length, 2)))


_RULES: Mapping[str, Callable[[Node], float]] = {
    "dot_general": _dot,
    "conv_general_dilated": _convolution,
    "sort": _sort,
    "top_k": _sort,
}
