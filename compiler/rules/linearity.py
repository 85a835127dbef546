"""Which operations commute with a pending sum.

A value may stay a partial sum through operations that are linear in it: summing before or after is the same.
A *linear group* is a set of operands that must be partial together (both addends of an ``add``; the operand
of a ``transpose``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ir import Literal, Node

LinearGroup = tuple[int, ...]

# Reductions that leave a partial *sum* where a reduced factor is split; other reductions combine at once.
SUM_REDUCTIONS = frozenset(
    {
        "dot_general",
        "conv_general_dilated",
        "reduce_sum",
        "gather",
        "scatter-add",
        "reduce_window_sum",
    }
)

_UNARY = (
    "neg",
    "transpose",
    "reshape",
    "broadcast_in_dim",
    "squeeze",
    "expand_dims",
    "reduce_sum",
    "copy",
    "copy_p",
    "real",
    "imag",
    "slice",
    "rev",
)
_JOINT = ("add", "sub", "add_any", "concatenate")


def linear_groups(node: Node) -> tuple[LinearGroup, ...]:
    """The operand groups through which a node passes a partial sum on to its result."""
    rule = _RULES.get(node.op)
    return rule(node) if rule else ()


def _first(node: Node) -> tuple[LinearGroup, ...]:
    return ((0,),) if not isinstance(node.operands[0], Literal) else ()


def _all_together(node: Node) -> tuple[LinearGroup, ...]:
    # A literal addend would be added once per device.
    literal = any(isinstance(o, Literal) for o in node.operands)
    return () if literal else (tuple(range(len(node.operands))),)


def _scaled(node: Node) -> tuple[LinearGroup, ...]:
    """``mul`` and ``div`` by a number written in the program."""
    # Integer division would truncate each addend.
    if node.op == "div" and "float" not in node.results[0].type.dtype:
        return ()
    if isinstance(node.operands[1], Literal):
        return _first(node)
    return ((1,),) if node.op == "mul" and isinstance(node.operands[0], Literal) else ()


def _float_to_float(node: Node) -> tuple[LinearGroup, ...]:
    # Rounding differs by no more than the conversion itself; integers would truncate each addend.
    types = (node.operands[0].type.dtype, node.results[0].type.dtype)
    return _first(node) if all("float" in t for t in types) else ()


_RULES: Mapping[str, Callable[[Node], tuple[LinearGroup, ...]]] = {
    **dict.fromkeys(_UNARY, _first),
    **dict.fromkeys(_JOINT, _all_together),
    "mul": _scaled,
    "div": _scaled,
    "convert_element_type": _float_to_float,
}
