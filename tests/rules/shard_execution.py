"""Checks a factor rule against execution: run the operation on shards, put the results together, compare.

A factor split n ways cuts every dim it stands in: seen as the grid of its factors, the dim is sliced along
that factor. Each part is run by itself on one device. Results are cut the same way, or, where the factor is
reduced, are summed (or combined as the case says). This holds for minor factors too, whose parts are strided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.ir import Node, Value
from meshwright.compiler.rules import FactorRule, RuleBook
from meshwright.compiler.rules.factor import DimFactors, TensorFactors
from meshwright.compiler.rules.linearity import SUM_REDUCTIONS

WAYS = (8, 2)
BOOK = RuleBook()

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One operation to check.

    Attributes:
        op: the primitive's name.
        call: ``call(*operands, shapes)`` applies exactly this primitive; ``shapes`` are those of its results,
            for operations that state them (``reshape``).
        operands: shape of each operand, or the array itself.
        free: how many factors the rule must leave splittable.
        label: tells cases of one operation apart.
        combine: how parts of a reduced factor are put together, where the operation is no sum.
        skip: reason by factor number why its split cannot be run on bare shards.
    """

    op: str
    call: Callable[..., Any]
    operands: tuple[Shape | np.ndarray, ...]
    free: int
    label: str = ""
    combine: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    skip: dict[int, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.op}-{self.label}" if self.label else self.op


def arrays_of(case: Case) -> list[np.ndarray]:
    """The operands, filled with positive numbers of no pattern."""
    rng = np.random.default_rng(0)
    return [
        o if isinstance(o, np.ndarray) else rng.uniform(0.5, 1.5, o).astype(np.float32) for o in case.operands
    ]


def node_of(case: Case, arrays: Sequence[np.ndarray]) -> Node:
    """The traced operation; fails where the call makes any other than one of the name."""
    shapes = result_shapes(case, arrays)
    program = trace_program(lambda *xs: case.call(*xs, shapes), TraceOptions(), arrays, {})
    nodes = [n for n in program.graph.nodes if n.op == case.op]
    assert len(nodes) == len(program.graph.nodes) == 1, [n.op for n in program.graph.nodes]
    return nodes[0]


def result_shapes(case: Case, arrays: Sequence[np.ndarray]) -> tuple[Shape, ...]:
    """Shapes of the whole results; ``call`` falls back on its own where it is given none."""
    results = jax.eval_shape(lambda *xs: case.call(*xs, None), *arrays)
    return tuple(r.shape for r in jax.tree.leaves(results))


def run(case: Case, arrays: Sequence[np.ndarray], shapes: tuple[Shape, ...]) -> list[np.ndarray]:
    """Applies the operation on one device."""
    return [np.asarray(r) for r in jax.tree.leaves(case.call(*arrays, shapes))]


def ways(size: int) -> int:
    """Into how many parts a factor is split: 8 or 2, or single elements."""
    return next((n for n in WAYS if size % n == 0), size)


def without_literals(node: Node, rule: FactorRule) -> FactorRule:
    """The rule as the call's arguments see it: numbers written into the program are no operands."""
    kept = [t for o, t in zip(node.operands, rule.operands, strict=True) if isinstance(o, Value)]
    return replace(rule, operands=tuple(kept))


def check_factor(case: Case, rule: FactorRule, factor: int, arrays: Sequence[np.ndarray]) -> None:
    """Splits one factor and compares the assembled results with the whole ones.

    Args:
        case: the operation.
        rule: its rule, ``without_literals``.
        factor: the factor to split.
        arrays: the whole operands.

    Raises:
        AssertionError: where they differ.
    """
    parts = ways(rule.sizes[factor])
    shapes = result_shapes(case, arrays)
    whole = run(case, arrays, shapes)
    local = tuple(_local_shape(s, t, rule, factor, parts) for s, t in zip(shapes, rule.results, strict=True))
    made = []
    for part in range(parts):
        shards = [
            cut(a, t, rule.sizes, factor, parts, part) for a, t in zip(arrays, rule.operands, strict=True)
        ]
        made.append(run(case, shards, local))
    for port, expected in enumerate(whole):
        found = [m[port] for m in made]
        tensor = rule.results[port]
        if any(factor in dim for dim in tensor):
            for part, shard in enumerate(found):
                wanted = cut(expected, tensor, rule.sizes, factor, parts, part)
                np.testing.assert_allclose(shard, wanted, rtol=2e-5, atol=2e-5, err_msg=f"part {part}")
        elif factor in rule.reduced:
            np.testing.assert_allclose(_reduce(case, found), expected, rtol=2e-5, atol=2e-5)
        else:
            # A split that a result does not show must leave it the same in every part.
            for shard in found:
                np.testing.assert_allclose(shard, expected, rtol=2e-5, atol=2e-5)


def cut(
    array: np.ndarray, tensor: TensorFactors, sizes: Sequence[int], factor: int, parts: int, part: int
) -> np.ndarray:
    """One part of an array whose dims are products of factors, one of them split."""
    for axis, dim in enumerate(tensor):
        if factor in dim:
            array = _cut_dim(array, axis, dim, sizes, factor, parts, part)
    return array


def _cut_dim(
    array: np.ndarray,
    axis: int,
    dim: DimFactors,
    sizes: Sequence[int],
    factor: int,
    parts: int,
    part: int,
) -> np.ndarray:
    grid = [sizes[f] for f in dim]
    before, after = array.shape[:axis], array.shape[axis + 1 :]
    place = axis + dim.index(factor)
    whole = array.reshape(*before, *grid, *after)
    step = sizes[factor] // parts
    piece = np.take(whole, range(part * step, (part + 1) * step), axis=place)
    return piece.reshape(*before, -1, *after)


def _local_shape(shape: Shape, tensor: TensorFactors, rule: FactorRule, factor: int, parts: int) -> Shape:
    return tuple(size // parts if factor in dim else size for size, dim in zip(shape, tensor, strict=True))


def _reduce(case: Case, parts: Sequence[np.ndarray]) -> np.ndarray:
    if case.op in SUM_REDUCTIONS:
        return np.sum(parts, axis=0)
    assert case.combine is not None, f"{case}: a reduced factor of an operation that is no sum"
    total = parts[0]
    for part in parts[1:]:
        total = case.combine(total, part)
    return total
