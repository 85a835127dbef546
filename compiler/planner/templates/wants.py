"""What each axis of a template is to do in one decision, and which strategies do it.

An axis may split only dims of the roles that its part names, and of those that have none. Where an operation
can split such a dim it has to, and so does an argument that is stored split. Everything else is the solver's.
What a pin or the program itself fixes is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...ir import Node
from ..layout import Layout
from .catalogue import Part, Storage
from .placement import Placement
from .role import Role
from .roles import Roles

_UNUSED = 99  # rank of an axis that splits no dim of a wanted role
_ALL = frozenset(Role)
_T = TypeVar("_T")

DimRoles = tuple[frozenset[Role], ...]


class Kind(Enum):
    """What is decided."""

    PARAMETER = "how a parameter lies"
    OPTIMIZER = "how other state lies"
    WEIGHTED = "an operation that applies a parameter"
    ROUTING = "one that only scores experts"
    OTHER = "anything else"


@dataclass(frozen=True)
class Want:
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


def wants_of(placement: Placement, kind: Kind, subject: Sequence[tuple[DimRoles, Any]]) -> dict[int, Want]:
    """By axis, what it is to do in a decision about values with these roles in their dims."""
    has_batch = any(Role.BATCH in dim for roles, _ in subject for dim in roles)
    rank = max((len(roles) for roles, _ in subject), default=0)
    return {
        a: _want(part, kind, has_batch, rank) for a, part in enumerate(placement.parts) if part is not None
    }


def kept_of(
    count: int,
    wants: Mapping[int, Want],
    subject: Sequence[_T],
    rank: Callable[[_T, int, Want], NDArray[np.int64]],
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


def ranks_of(layouts: Sequence[Layout], roles: DimRoles, axis: int, want: Want) -> NDArray[np.int64]:
    """For each layout, the rank of the dim that the axis splits."""
    of_dim = [want.rank(dim) for dim in roles]
    return np.array([_rank_in(layout, axis, of_dim) for layout in layouts])


def _rank_in(layout: Layout, axis: int, of_dim: Sequence[int]) -> int:
    return next((rank for dim, rank in zip(layout.dims, of_dim, strict=True) if axis in dim), _UNUSED)


def _want(part: Part, kind: Kind, has_batch: bool, rank: int) -> Want:
    used = frozenset(role for tier in part.uses for role in tier)
    if kind in (Kind.PARAMETER, Kind.OPTIMIZER):
        storage = part.parameters if kind is Kind.PARAMETER else part.optimizer
        if storage is Storage.SPLIT:
            return Want((tuple(Role),), _ALL, True)
        if storage is Storage.AS_USED:
            return Want(part.uses[:1], frozenset(part.uses[0]), not part.is_loose or rank > 2)
        return Want((), frozenset(), False)
    if kind is Kind.WEIGHTED or (kind is Kind.ROUTING and not part.is_loose):
        return Want(part.uses, used | {Role.FREE}, True)
    if has_batch:
        tiers = (tuple(used),) if part.is_loose else part.uses
        return Want(tiers, used | {Role.FREE}, True)
    is_stored_split = Storage.SPLIT in (part.parameters, part.optimizer)
    return Want(part.uses, _ALL if is_stored_split else used | {Role.FREE}, False)


def kind_of(node: Node | None, roles: Roles) -> Kind:
    """What an operation decides; None stands for a mere layout."""
    if node in roles.routing:
        return Kind.ROUTING
    return Kind.WEIGHTED if node in roles.weighted else Kind.OTHER
