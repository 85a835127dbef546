"""Solves models within templates: the one asked for, or all, so that no plan is worse than an expert's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from ....cost_models.mesh import LogicalMesh
from ...ir import Program
from ...rules import RuleBook
from ..model import Model
from ..solver.failure import InfeasibleBudget, NoAllowedChoice
from ..solver.preprocess import Index, Reduced, restrict
from ..solver.search import EXACT
from ..solver.solve import Solution, SolveOptions, solve
from .catalogue import TEMPLATES, Template
from .narrowing import TemplateNarrowing
from .placement import Placement, placement_in_order, placements, why_not
from .restriction import Restriction
from .roles import Roles, find_roles


class Experts:
    """The templates for one program. Its roles are found when first wanted."""

    def __init__(self, program: Program, rules: RuleBook) -> None:
        """See ``find_roles``."""
        self._program = program
        self._rules = rules

    @cached_property
    def roles(self) -> Roles:
        """The program's roles."""
        return find_roles(self._program, self._rules)

    def place(self, template: Template, mesh: LogicalMesh) -> Placement | str:
        """The template on the axes of a mesh in order, or why it does not apply."""
        placed = placement_in_order(template, mesh)
        if isinstance(placed, str):
            return placed
        return why_not(placed, self.roles, mesh) or placed

    def applying(self, mesh: LogicalMesh) -> Iterator[Placement]:
        """All templates that suit the program and use all axes of a mesh, in every order of the axes."""
        for template in TEMPLATES.values():
            for placed in placements(template, mesh):
                if why_not(placed, self.roles, mesh) is None:
                    yield placed

    def narrowing(self, placed: Placement | None) -> TemplateNarrowing | None:
        """What to leave out of a model that is only solved within a template; None for none."""
        return None if placed is None else TemplateNarrowing(self._program, self.roles, placed)

    def solve_within(self, placed: Placement, model: Model, options: SolveOptions) -> Solution:
        """Solves a model within a template; the bound is that of the template.

        Raises:
            InfeasibleBudget: where nothing within it fits.
            NoAllowedChoice: where its layouts cannot follow one another.
        """
        return _solve(restrict(model.problem, Restriction(model, self.roles).kept(placed)), options)

    def improve(
        self, mesh: LogicalMesh, model: Model, present: Solution | None, options: SolveOptions
    ) -> tuple[Solution, str] | None:
        """The cheapest template's answer and its name, where it costs less than what is known.

        Args:
            mesh: the mesh.
            model: the model.
            present: the answer at hand, with floors; None where nothing was found to fit.
            options: how to search; ``cutoff_s`` is a cost known from elsewhere.
        """
        known_s, bound_s, floors = options.cutoff_s, 0.0, ()
        if present is not None:
            known_s, bound_s, floors = min(known_s, present.objective_s), present.bound_s, present.floors
        best = None
        restriction = Restriction(model, self.roles)
        for placed in self.applying(mesh):
            if options.deadline.is_over():
                break
            if restriction.passes(placed, floors, known_s):
                continue
            found = self._attempt(restriction.kept(placed), model, replace(options, cutoff_s=known_s))
            if found is not None and found.objective_s < known_s * (1 - EXACT):
                known_s = found.objective_s
                bounded = replace(found, bound_s=min(bound_s, known_s), is_optimal=False)
                best = bounded, placed.template.name
        return best

    def _attempt(self, kept: list[Index], model: Model, options: SolveOptions) -> Solution | None:
        try:
            return _solve(restrict(model.problem, kept), options)
        except (InfeasibleBudget, NoAllowedChoice):
            return None


def _solve(part: Reduced, options: SolveOptions) -> Solution:
    try:
        found = solve(part.problem, options)
    except InfeasibleBudget as failure:
        raise InfeasibleBudget(
            failure.budget_bytes,
            failure.least_budget_bytes,
            failure.bound_bytes,
            failure.point,
            part.restore(failure.choice),
        ) from failure
    return replace(found, choice=part.restore(found.choice))
