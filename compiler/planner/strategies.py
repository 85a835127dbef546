"""Strategies of one operation: every useful assignment of mesh axes to the factors of its rule.

Each mesh axis splits one factor, carries a pending sum through a linear operation, or does nothing (the
operation is replicated along it). From the assignment follow the layouts of operands and results, how much of
the work one device does, and the collectives inside the operation itself (combining a reduction that is not a
sum).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...cost_models.collectives import Collective
from ..analysis.fusion import FusedOperation
from ..analysis.op_kind import is_fusible
from ..ir import Node
from ..rules import FactorRule
from ..rules.factor import TensorFactors
from ..rules.fused import fused_linear_groups, pending_results
from ..rules.linearity import SUM_REDUCTIONS, LinearGroup
from .layout import Axes, Layout, can_split
from .reshard import Step

# Besides fused loops, the operations whose padding XLA's partitioner fills with the neutral element.
_MASKED = frozenset(
    {"dot_general", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or"}
)

# Sums that XLA's partitioner leaves in parts; of a gather it cuts the slices instead.
_SCATTERED = frozenset({"dot_general", "conv_general_dilated", "reduce_sum"})

# Reductions of pairs, which XLA's partitioner finishes on every device from all partial results.
_COMBINED_BY_GATHERING = frozenset({"argmax", "argmin"})


@dataclass(frozen=True)
class Strategy:
    """One way to run an operation on the mesh.

    Attributes:
        operands: layout required of each operand.
        results: layout of each result.
        shards: for each node of the operation, how much less than the whole work one device does.
        steps: collectives inside the operation.
    """

    operands: tuple[Layout, ...]
    results: tuple[Layout, ...]
    shards: tuple[float, ...] = ()
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class _Assignment:
    """Mesh axes by factor, and by linear group (for pending sums passed through)."""

    factors: Mapping[int, Axes]
    partial: tuple[tuple[LinearGroup, int], ...] = ()


def operation_strategies(
    operation: FusedOperation, rule: FactorRule, mesh_shape: Sequence[int], shared: bool = False
) -> tuple[Strategy, ...]:
    """All strategies of an operation, the replicated one first.

    Args:
        operation: the operation.
        rule: its factor rule.
        mesh_shape: sizes of the mesh axes.
        shared: whether several operations read the result. A sum that each would finish for itself may then
            be finished at once.
    """
    groups = fused_linear_groups(operation)
    assignments = _assignments(rule, groups, mesh_shape, _paddable(operation, rule))
    found = list(dict.fromkeys(_strategy(operation, rule, a, mesh_shape) for a in assignments))
    begun = [s for s in found if shared and operation.anchor.op in SUM_REDUCTIONS and _begins_a_sum(s)]
    finished = [made for s in begun for made in _finished(operation.anchor, s, mesh_shape)]
    return tuple(dict.fromkeys([*found, *finished]))


def _begins_a_sum(strategy: Strategy) -> bool:
    pending = [x for x in strategy.results if x.partial]
    return len(strategy.results) == len(pending) == 1 and not any(x.partial for x in strategy.operands)


def _finished(node: Node, strategy: Strategy, mesh_shape: Sequence[int]) -> Iterator[Strategy]:
    """A strategy with its pending sum added up at once: it ends on every device, or in parts of one dim."""
    (pending,) = strategy.results
    type_ = node.results[0].type
    axes, size = pending.partial, _size(pending.partial, mesh_shape)
    whole = dataclasses.replace(pending, partial=())
    sent = pending.local_bytes(type_, mesh_shape)
    yield _with_result(strategy, whole, Step(Collective.ALL_REDUCE, axes, sent))
    for dim, split in enumerate(whole.dims):
        if node.op in _SCATTERED and not split and type_.shape[dim] % size == 0:
            parts = dataclasses.replace(whole, dims=(*whole.dims[:dim], axes, *whole.dims[dim + 1 :]))
            yield _with_result(strategy, parts, Step(Collective.REDUCE_SCATTER, axes, sent))


def _with_result(strategy: Strategy, result: Layout, step: Step) -> Strategy:
    return dataclasses.replace(strategy, results=(result,), steps=(*strategy.steps, step))


def _assignments(
    rule: FactorRule, groups: Sequence[LinearGroup], mesh_shape: Sequence[int], paddable: frozenset[int]
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
        if _is_possible(rule, factors, mesh_shape, paddable):
            yield _Assignment(factors, tuple(partial))


def _paddable(operation: FusedOperation, rule: FactorRule) -> frozenset[int]:
    """Factors that may be split unevenly: they are whole dims, and the partitioner masks the padding."""
    if not all(is_fusible(node) or node.op in _MASKED for node in operation.nodes):
        return frozenset()
    tensors = (*rule.operands, *rule.results)
    combined = {f for tensor in tensors for dim in tensor if len(dim) > 1 for f in dim}
    return frozenset(rule.splittable()) - combined


def _is_possible(
    rule: FactorRule, factors: Mapping[int, Axes], mesh_shape: Sequence[int], paddable: frozenset[int]
) -> bool:
    """Whether every split fits its factor and is contiguous in every dim it shows in."""
    splits = {f: _size(axes, mesh_shape) for f, axes in factors.items()}
    if not all(can_split(rule.sizes[f], n, f in paddable) for f, n in splits.items()):
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
    operation: FusedOperation, rule: FactorRule, chosen: _Assignment, mesh_shape: Sequence[int]
) -> Strategy:
    operands = tuple(
        Layout(_dims(tensor, chosen.factors), _pending_of(i, chosen.partial))
        for i, tensor in enumerate(rule.operands)
    )
    # A mesh axis on a reduced factor leaves a pending sum, or is combined inside where it is no sum.
    reduced = tuple(sorted(a for f, axes in chosen.factors.items() if f in rule.reduced for a in axes))
    adds = operation.anchor.op in SUM_REDUCTIONS
    pending = _pending_results(operation, chosen.partial, reduced if adds else ())
    results = tuple(
        Layout(_dims(tensor, chosen.factors), axes)
        for tensor, axes in zip(rule.results, pending, strict=True)
    )
    steps = () if adds or not reduced else _combine(operation.anchor, results, reduced, mesh_shape)
    return Strategy(operands, results, _shards(operation, rule, chosen.factors, results, mesh_shape), steps)


def _pending_results(
    operation: FusedOperation, partial: Sequence[tuple[LinearGroup, int]], reduced: Axes
) -> list[Axes]:
    axes: list[list[int]] = [list(reduced) for _ in operation.results]
    for group, axis in partial:
        for held, flag in zip(axes, pending_results(operation, group) or (), strict=True):
            held += [axis] if flag else []
    return [tuple(sorted(held)) for held in axes]


def _pending_of(operand: int, partial: Sequence[tuple[LinearGroup, int]]) -> Axes:
    return tuple(sorted(axis for group, axis in partial if operand in group))


def _combine(
    node: Node, results: Sequence[Layout], axes: Axes, mesh_shape: Sequence[int]
) -> tuple[Step, ...]:
    if node.op in _COMBINED_BY_GATHERING:
        # Every device's extreme and where it stands.
        elements = results[0].local_elements(node.results[0].type.shape, mesh_shape) * _size(axes, mesh_shape)
        sizes = (node.operands[0].type.itemsize_bytes, node.results[0].type.itemsize_bytes)
        return tuple(Step(Collective.ALL_GATHER, axes, float(elements * size)) for size in sizes)
    pairs = zip(results, node.results, strict=True)
    return tuple(
        Step(Collective.ALL_REDUCE, axes, layout.local_bytes(v.type, mesh_shape)) for layout, v in pairs
    )


def _shards(
    operation: FusedOperation,
    rule: FactorRule,
    factors: Mapping[int, Axes],
    results: Sequence[Layout],
    mesh_shape: Sequence[int],
) -> tuple[float, ...]:
    """A single operation's work is cut along all its factors, a fused node's along those of its result."""
    if len(operation.nodes) == 1:
        parts = [_speed_up(rule.sizes[f], _size(axes, mesh_shape)) for f, axes in factors.items()]
        return (math.prod(parts),)
    layouts = iter(results)
    made = [([next(layouts) for _ in node.results][0], node.results[0].type) for node in operation.nodes]
    return tuple(
        type_.num_elements / max(layout.local_elements(type_.shape, mesh_shape), 1) or 1.0
        for layout, type_ in made
    )


def _speed_up(size: int, parts: int) -> float:
    """How much less than the whole of a factor the first part is; less than ``parts`` where it is padded."""
    return size / -(-size // parts) if size else float(parts)


def _dims(tensor: TensorFactors, factors: Mapping[int, Axes]) -> tuple[Axes, ...]:
    return tuple(tuple(a for f in dim for a in factors.get(f, ())) for dim in tensor)


def _size(axes: Sequence[int], mesh_shape: Sequence[int]) -> int:
    return math.prod(mesh_shape[a] for a in axes)
