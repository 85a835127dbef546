"""Restricts a built model to a template."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...ir import Value
from ..layout import Layout
from ..model import Model
from .placement import Placement
from .roles import Roles
from .wants import DimRoles, Kind, Want, kept_of, kind_of, ranks_of, wants_of

# The roles in the dims of each value that a variable makes or reads, with the number of its list of layouts.
_Subject = tuple[tuple[DimRoles, int], ...]


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

    def _keep(self, count: int, kind: Kind, subject: _Subject, placement: Placement) -> NDArray[np.int64]:
        def rank(subject: tuple[DimRoles, int], axis: int, want: Want) -> NDArray[np.int64]:
            roles, layouts = subject
            key = (layouts, roles, axis, want)
            if key not in self._ranks:
                self._ranks[key] = ranks_of(self._layouts[layouts], roles, axis, want)
            return self._ranks[key]

        return kept_of(count, wants_of(placement, kind, subject), subject, rank)


def _kinds(model: Model, roles: Roles) -> list[Kind]:
    """What each variable decides: stored state, the use of a parameter, or anything else."""
    found = [kind_of(v.node, roles) for v in model.variables]
    for position, variable in enumerate(model.inputs):
        if position in roles.parameters:
            found[variable] = Kind.PARAMETER
        elif position in roles.optimizer:
            found[variable] = Kind.OPTIMIZER
    return found


def _subjects(model: Model, roles: Roles) -> tuple[list[_Subject], dict[int, tuple[Layout, ...]]]:
    """What each variable makes and reads, and the lists of layouts by number."""
    known: dict[Value, DimRoles] = {}
    found: list[dict[tuple[DimRoles, int], None]] = [{} for _ in model.variables]
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
        if id(read.source) in made:
            yield read.reader, made[id(read.source)], read.targets
