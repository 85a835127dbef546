"""Hand-written rules, for the few primitives that Shardy has none for.

Each is checked against execution on shards in ``tests/rules/test_shard_execution.py``, those of random
numbers in ``tests/rules/test_random_rules.py``.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir import Node
from .factor import FactorRule

ManualRule = Callable[[Node], FactorRule]


def _leading(node: Node, count: int) -> FactorRule:
    """Every index of the leading dims is computed by itself: these pass through, the others are fixed.

    Args:
        node: an operation whose operands and results share their leading dims; operands may have fewer.
        count: how many.
    """
    shapes = [v.type.shape for v in (*node.operands, *node.results)]
    sizes = list(node.results[0].type.shape[:count])
    tensors = []
    for shape in shapes:
        shared, own = tuple(range(min(count, len(shape)))), range(len(sizes), len(sizes) + len(shape[count:]))
        sizes += shape[count:]
        tensors.append(tuple((f,) for f in (*shared, *own)))
    operands, results = tensors[: len(node.operands)], tensors[len(node.operands) :]
    return FactorRule(
        tuple(sizes), tuple(operands), tuple(results), fixed=frozenset(range(count, len(sizes)))
    )


def _elementwise(node: Node) -> FactorRule:
    """A function of single elements that Shardy sees as a loop until all of them have converged."""
    return _leading(node, node.results[0].type.rank)


def _batch_of_rows(node: Node) -> FactorRule:
    return _leading(node, node.operands[0].type.rank - 1)


def _batch_of_matrices(node: Node) -> FactorRule:
    return _leading(node, node.operands[0].type.rank - 2)


def _random_bits(node: Node) -> FactorRule:
    """Each device draws its own part: threefry counts (jax_threefry_partitionable, on by default).

    Other generators give other numbers to a device that draws less: they draw the whole.
    """
    counts = node.operands[0].type.dtype == "key<fry>"
    return _generator(node) if counts else _leading(node, 0)


def _random_gamma(node: Node) -> FactorRule:
    """One loop for each element, over the flattened array: only its leading dim stays contiguous."""
    return _leading(node, min(1, node.results[0].type.rank))


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


def _whole(node: Node) -> FactorRule:
    """A device that draws a part gets other numbers than one device that draws the whole."""
    return _leading(node, 0)


MANUAL_RULES: dict[str, ManualRule] = {
    **dict.fromkeys(("igamma", "igamma_grad_a", "igammac", "regularized_incomplete_beta"), _elementwise),
    "lu": _batch_of_matrices,
    "lu_pivots_to_permutation": _batch_of_rows,
    "optimization_barrier": _identity,
    "random_bits": _random_bits,
    "random_gamma": _random_gamma,
    "rng_bit_generator": _whole,
    "rng_uniform": _whole,
    "top_k": _batch_of_rows,
}
