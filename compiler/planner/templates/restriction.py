"""What a template leaves of each decision of a model.

An axis may split only dims of the roles that its part names, and of those that have none. Where an operation
can split such a dim it has to, and so does an argument that is stored split. Everything else is the solver's.
What a pin or the program itself fixes is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...ir import Node, Program, Value
from ..layout import Layout
from ..model import Model
from ..strategies import Strategy
from .catalogue import Part, Storage
from .placement import Placement
from .role import Role
from .roles import Roles

_UNUSED = 99  # rank of an axis that splits no dim of a wanted role
_ALL = frozenset(Role)
_T = TypeVar("_T")

_DimRoles = tuple[frozenset[Role], ...]

# The roles in the dims of each value that a variable makes or reads, with the number of its list of layouts.
_Subject = tuple[tuple[_DimRoles, int], ...]


@dataclass(frozen=True)
class _Want:
    """What an axis is to do in one decision.

    Attributes:
        tiers: roles to split, those wanted most first.
        allowed: roles that may be split.
        is_required: whether as high a tier as can be has to be split.
    """

    tiers: tuple[tuple[Role, ...], ...]
    allowed: frozenset[Role]
    is_required: bool

    def rank(self, roles: frozenset[Role]) -> int:
        """The tier of a dim of these roles; -1 where the axis must not split it."""
        if roles.isdisjoint(self.allowed):
            return -1
        tiers = (i for i, tier in enumerate(self.tiers) if not roles.isdisjoint(tier))
        return next(tiers, _UNUSED)


class Restriction:
    """Restricts models of one program on one mesh."""

    def __init__(self, model: Model, roles: Roles) -> None:
        """Collects what each decision is about.

        Args:
            model: the model.
            roles: the program's roles.
        """
        self._ranks: dict[Hashable, NDArray[np.int64]] = {}
        subjects, self._layouts = _subjects(model, roles)
        counts = [len(variable.strategies) for variable in model.variables]
        cases = list(zip(counts, _kinds(model, roles), subjects, strict=True))
        numbers = {case: number for number, case in enumerate(dict.fromkeys(cases))}
        self._cases = list(numbers)
        self._case_of = [numbers[case] for case in cases]

    def kept(self, placement: Placement) -> list[NDArray[np.int64]]:
        """The strategies that each variable keeps, ascending; at least one."""
        return list(self._kept(placement))

    def passes(self, placement: Placement, floors: Sequence[NDArray[np.float64]], cost_s: float) -> bool:
        """Whether every plan within a template is known to cost more than so many seconds.

        Args:
            placement: the template.
            floors: what a plan with each strategy of each variable costs at least; none where not known.
            cost_s: the seconds.
        """
        pairs = zip(floors, self._kept(placement), strict=False)
        return any(floor[kept].min() > cost_s for floor, kept in pairs)

    def _kept(self, placement: Placement) -> Iterator[NDArray[np.int64]]:
        known: dict[int, NDArray[np.int64]] = {}
        for case in self._case_of:
            if case not in known:
                known[case] = self._keep(*self._cases[case], placement)
            yield known[case]

    def _keep(self, count: int, kind: str, subject: _Subject, placement: Placement) -> NDArray[np.int64]:
        def rank(subject: tuple[_DimRoles, int], axis: int, want: _Want) -> NDArray[np.int64]:
            roles, layouts = subject
            key = (layouts, roles, axis, want)
            if key not in self._ranks:
                self._ranks[key] = _ranks(self._layouts[layouts], roles, axis, want)
            return self._ranks[key]

        return _kept(count, _wants(placement, kind, subject), subject, rank)


class Narrowing:
    """Leaves out of menus what a template does, so that a model is built without it."""

    def __init__(self, program: Program, roles: Roles, placement: Placement) -> None:
        """Takes the template and what it is about."""
        self._roles = roles
        self._placement = placement
        inputs = program.graph.inputs
        self._stored = {inputs[i]: "parameter" for i in roles.parameters}
        self._stored |= {inputs[i]: "optimizer" for i in roles.optimizer}

    def key(self, values: Sequence[Value], node: Node | None) -> Hashable:
        """What the answer of ``kept`` depends on, besides the strategies."""
        return self._kind(values, node), tuple(map(self._roles.of_dims, values))

    def kept(
        self, values: Sequence[Value], node: Node | None, strategies: Sequence[Strategy]
    ) -> list[Strategy]:
        """The strategies that the template leaves.

        Args:
            values: what is decided: operands and results of an operation, or one input.
            node: the operation.
            strategies: all, with a layout of each operand and result.
        """
        layouts = zip(*((*s.operands, *s.results) for s in strategies), strict=True)
        subject = list(zip(map(self._roles.of_dims, values), layouts, strict=True))
        wants = _wants(self._placement, self._kind(values, node), subject)
        found = _kept(len(strategies), wants, subject, lambda s, axis, want: _ranks(s[1], s[0], axis, want))
        return [strategies[k] for k in found]

    def _kind(self, values: Sequence[Value], node: Node | None) -> str:
        if node is None:
            return self._stored.get(values[0], "other")
        return _kind_of(node, self._roles)


def _wants(placement: Placement, kind: str, subject: Sequence[tuple[_DimRoles, Any]]) -> dict[int, _Want]:
    has_batch = any(Role.BATCH in dim for roles, _ in subject for dim in roles)
    rank = max((len(roles) for roles, _ in subject), default=0)
    return {
        a: _want(part, kind, has_batch, rank) for a, part in enumerate(placement.parts) if part is not None
    }


def _kept(
    count: int,
    wants: Mapping[int, _Want],
    subject: Sequence[_T],
    rank: Callable[[_T, int, _Want], NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Those of ``count`` strategies that do what each axis is to do, in all values."""
    ranks = {axis: np.full(count, _UNUSED) for axis in wants}
    allowed = np.ones(count, bool)
    for axis, want in wants.items():
        for value in subject:
            found = rank(value, axis, want)
            allowed &= found >= 0
            ranks[axis] = np.minimum(ranks[axis], found)
    kept = np.flatnonzero(allowed) if allowed.any() else np.arange(count)
    for axis, want in wants.items():
        if want.is_required:
            kept = kept[ranks[axis][kept] == ranks[axis][kept].min()]
    return kept


def _ranks(layouts: Sequence[Layout], roles: _DimRoles, axis: int, want: _Want) -> NDArray[np.int64]:
    """For each layout, the rank of the dim that the axis splits."""
    of_dim = [want.rank(dim) for dim in roles]
    return np.array([_rank_in(layout, axis, of_dim) for layout in layouts])


def _rank_in(layout: Layout, axis: int, of_dim: Sequence[int]) -> int:
    return next((rank for dim, rank in zip(layout.dims, of_dim, strict=True) if axis in dim), _UNUSED)


def _want(part: Part, kind: str, has_batch: bool, rank: int) -> _Want:
    used = frozenset(role for tier in part.uses for role in tier)
    if kind in ("parameter", "optimizer"):
        storage = part.parameters if kind == "parameter" else part.optimizer
        if storage is Storage.SPLIT:
            return _Want((tuple(Role),), _ALL, True)
        if storage is Storage.AS_USED:
            return _Want(part.uses[:1], frozenset(part.uses[0]), not part.is_loose or rank > 2)
        return _Want((), frozenset(), False)
    if kind == "weighted" or (kind == "routing" and not part.is_loose):
        return _Want(part.uses, used | {Role.FREE}, True)
    if has_batch:
        tiers = (tuple(used),) if part.is_loose else part.uses
        return _Want(tiers, used | {Role.FREE}, True)
    is_stored_split = Storage.SPLIT in (part.parameters, part.optimizer)
    return _Want(part.uses, _ALL if is_stored_split else used | {Role.FREE}, False)


def _kind_of(node: Node | None, roles: Roles) -> str:
    if node in roles.routing:
        return "routing"
    return "weighted" if node in roles.weighted else "other"


def _kinds(model: Model, roles: Roles) -> list[str]:
    """What each variable decides: stored state, the use of a parameter, or anything else."""
    found = [_kind_of(v.node, roles) for v in model.variables]
    for position, variable in enumerate(model.inputs):
        if position in roles.parameters:
            found[variable] = "parameter"
        elif position in roles.optimizer:
            found[variable] = "optimizer"
    return found


def _subjects(model: Model, roles: Roles) -> tuple[list[_Subject], dict[int, tuple[Layout, ...]]]:
    """What each variable makes and reads, and the lists of layouts by number."""
    known: dict[Value, _DimRoles] = {}
    found: list[dict[tuple[_DimRoles, int], None]] = [{} for _ in model.variables]
    lists: dict[int, tuple[Layout, ...]] = {}
    for variable, value, layouts in _layouts(model):
        if value not in known:
            known[value] = roles.of_dims(value)
        lists[id(layouts)] = layouts
        found[variable][known[value], id(layouts)] = None
    return [tuple(subject) for subject in found], lists


def _layouts(model: Model) -> Iterator[tuple[int, Value, tuple[Layout, ...]]]:
    """Every value that a variable makes or reads, with its layout under each strategy."""
    made: Mapping[int, Value] = {id(d): value for value, d in reversed(model.definitions.items())}
    for value, definition in model.definitions.items():
        if made[id(definition)] is value:
            yield definition.variable, value, definition.layouts
    for read in model.reads:
        yield read.reader, made[id(read.source)], read.targets
