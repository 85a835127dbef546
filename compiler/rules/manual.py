"""Hand-written rules, for the few primitives that Shardy has none for.

Each is checked against execution on shards in ``tests/rules/test_manual.py``.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir import Node
from .factor import FactorRule, TensorFactors

ManualRule = Callable[[Node], FactorRule]


def _random_bits(node: Node) -> FactorRule:
    """Each device draws its own part: threefry counts (jax_threefry_partitionable, on by default)."""
    return _generator(node)


def _top_k(node: Node) -> FactorRule:
    """Every row is sorted by itself: all dims but the last pass through."""
    (operand,) = node.operands
    batch = operand.type.shape[:-1]
    passed: TensorFactors = tuple((d,) for d in range(len(batch)))
    last = len(batch)
    sizes = (*batch, operand.type.shape[-1], node.results[0].type.shape[-1])
    result = (*passed, (last + 1,))
    return FactorRule(sizes, ((*passed, (last,)),), (result, result), fixed=frozenset({last, last + 1}))


def _identity(node: Node) -> FactorRule:
    """Each result is the operand at its position, untouched."""
    tensors, sizes = [], []
    for operand in node.operands:
        tensors.append(tuple((len(sizes) + d,) for d in range(operand.type.rank)))
        sizes += operand.type.shape
    return FactorRule(tuple(sizes), tuple(tensors), tuple(tensors))


def _generator(node: Node) -> FactorRule:
    """The rule of an operation that makes its result from nothing but its position."""
    shape = node.results[0].type.shape
    operands = tuple(tuple(() for _ in o.type.shape) for o in node.operands)
    return FactorRule(shape, operands, (tuple((d,) for d in range(len(shape))),))


MANUAL_RULES: dict[str, ManualRule] = {
    "optimization_barrier": _identity,
    "random_bits": _random_bits,
    "top_k": _top_k,
}
