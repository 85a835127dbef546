"""Strategies of one operation: every useful assignment of mesh axes to the factors of its rule.

Each mesh axis splits one factor, carries a pending sum through a linear operation, or does nothing (the
operation is replicated along it). From the assignment follow the layouts of operands and results, how much of
the work one device does, and the collectives inside the operation itself (combining a reduction that is not a
sum).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...cost_models.collectives import Collective
from ..ir import Literal, Node
from ..rules import FactorRule
from ..rules.factor import TensorFactors
from ..rules.linearity import SUM_REDUCTIONS, LinearGroup, linear_groups
from .layout import Axes, Layout
from .reshard import Step


@dataclass(frozen=True)
class Strategy:
    """One way to run an operation on the mesh.

    Attributes:
        operands: layout required of each operand.
        results: layout of each result.
        num_shards: into how many equal parts the work is cut.
        steps: collectives inside the operation.
    """

    operands: tuple[Layout, ...]
    results: tuple[Layout, ...]
    num_shards: int = 1
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class _Assignment:
    """Mesh axes by factor, and by linear group (for pending sums passed through)."""

    factors: Mapping[int, Axes]
    partial: tuple[tuple[LinearGroup, int], ...] = ()


def node_strategies(node: Node, rule: FactorRule, mesh_shape: Sequence[int]) -> tuple[Strategy, ...]:
    """All strategies of an operation without regions, the replicated one first.

    Args:
        node: the operation.
        rule: its factor rule.
        mesh_shape: sizes of the mesh axes.
    """
    groups = linear_groups(node)
    made = (_strategy(node, rule, a, mesh_shape) for a in _assignments(rule, groups, mesh_shape))
    unique = dict.fromkeys(s for s in made if s is not None)
    return tuple(unique)


def _assignments(
    rule: FactorRule, groups: Sequence[LinearGroup], mesh_shape: Sequence[int]
) -> Iterator[_Assignment]:
    axes = [a for a, size in enumerate(mesh_shape) if size > 1]
    choices: list[int | LinearGroup | None] = [None, *rule.splittable(), *groups]
    for chosen in itertools.product(choices, repeat=len(axes)):
        factors: dict[int, Axes] = {}
        partial = []
        for axis, choice in zip(axes, chosen, strict=True):
            if isinstance(choice, int):
                factors[choice] = (*factors.get(choice, ()), axis)
            elif choice is not None:
                partial.append((choice, axis))
        if _divides(rule, factors, mesh_shape):
            yield _Assignment(factors, tuple(partial))


def _divides(rule: FactorRule, factors: Mapping[int, Axes], mesh_shape: Sequence[int]) -> bool:
    """Whether every split is even and contiguous in every dim it shows in."""
    splits = {f: _size(axes, mesh_shape) for f, axes in factors.items()}
    if any(rule.sizes[f] % n for f, n in splits.items()):
        return False
    return all(_contiguous(rule, dim, splits) for tensor in (*rule.operands, *rule.results) for dim in tensor)


def _contiguous(rule: FactorRule, dim: Sequence[int], splits: Mapping[int, int]) -> bool:
    # A minor factor's split is a block of the dim only if all major ones are split down to single elements.
    whole = True
    for factor in dim:
        if factor in splits and not whole:
            return False
        whole = whole and splits.get(factor, 1) == rule.sizes[factor]
    return True


def _strategy(
    node: Node, rule: FactorRule, chosen: _Assignment, mesh_shape: Sequence[int]
) -> Strategy | None:
    # A mesh axis on a reduced factor leaves a pending sum, or is combined inside where the reduction is no
    # sum.
    summed = tuple(sorted(a for f, axes in chosen.factors.items() if f in rule.reduced for a in axes))
    adds = node.op in SUM_REDUCTIONS
    passed = [axis for _, axis in chosen.partial]
    pending = tuple(sorted([*passed, *(summed if adds else ())]))
    if passed and not _linear_ok(node, chosen):
        return None
    operands = tuple(
        Layout(_dims(tensor, chosen.factors), _pending_of(i, chosen.partial))
        for i, tensor in enumerate(rule.operands)
    )
    results = tuple(Layout(_dims(tensor, chosen.factors), pending) for tensor in rule.results)
    steps = () if adds or not summed else _combine(node, results, summed, mesh_shape)
    shards = _size([a for axes in chosen.factors.values() for a in axes], mesh_shape)
    return Strategy(operands, results, shards, steps)


def _linear_ok(node: Node, chosen: _Assignment) -> bool:
    """A literal or a pending sum of another group would spoil the sum; each axis serves one group only."""
    return all(not isinstance(node.operands[i], Literal) for group, _ in chosen.partial for i in group)


def _pending_of(operand: int, partial: Sequence[tuple[LinearGroup, int]]) -> Axes:
    return tuple(sorted(axis for group, axis in partial if operand in group))


def _combine(
    node: Node, results: Sequence[Layout], axes: Axes, mesh_shape: Sequence[int]
) -> tuple[Step, ...]:
    pairs = zip(results, node.results, strict=True)
    return tuple(
        Step(Collective.ALL_REDUCE, axes, layout.local_bytes(v.type, mesh_shape)) for layout, v in pairs
    )


def _dims(tensor: TensorFactors, factors: Mapping[int, Axes]) -> tuple[Axes, ...]:
    return tuple(tuple(a for f in dim for a in factors.get(f, ())) for dim in tensor)


def _size(axes: Sequence[int], mesh_shape: Sequence[int]) -> int:
    return math.prod(mesh_shape[a] for a in axes)
