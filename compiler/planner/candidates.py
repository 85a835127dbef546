"""The answers of the solver on the meshes of one search, and which of them is best."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ...cost_models.mesh import LogicalMesh
from .model import Model
from .solver.failure import InfeasibleBudget
from .solver.solve import Solution

SAME_COST = 1e-9  # relative difference below which two plans cost the same


@dataclass(frozen=True)
class Candidate:
    """The answer of the solver on one mesh; ``template`` names the one it is of, if any."""

    mesh: LogicalMesh
    model: Model
    solution: Solution
    template: str = ""

    def is_better_than(self, other: Candidate) -> bool:
        """Whether it costs less; of equal costs, whether it takes less memory, then fewer axes."""
        costs = self.solution.objective_s, other.solution.objective_s
        if abs(costs[0] - costs[1]) > SAME_COST * max(map(abs, costs)):
            return costs[0] < costs[1]
        return self._tie_break < other._tie_break

    @property
    def _tie_break(self) -> tuple[float, int]:
        return self.solution.peak_bytes, len(self.mesh.shape)


@dataclass
class Candidates:
    """What the meshes tried so far gave.

    Attributes:
        best: the best plan's parts.
        tried: mesh shapes with the objective of each, None where nothing fits.
        failures: of the meshes where nothing fits.
        is_cut_short: whether time ended the search on a mesh, or before one.
    """

    best: Candidate | None = None
    tried: list[tuple[tuple[int, ...], float | None]] = field(default_factory=list)
    failures: list[tuple[Model, InfeasibleBudget]] = field(default_factory=list)
    is_cut_short: bool = False

    @property
    def cutoff_s(self) -> float:
        """A mesh on which nothing costs so little needs no further search."""
        return math.inf if self.best is None else self.best.solution.objective_s

    @property
    def cutoff_bytes(self) -> float:
        """A mesh on which nothing fits in less has no least budget of interest."""
        least = min((failure.least_budget_bytes for _, failure in self.failures), default=math.inf)
        return least if self.best is None else 0.0

    def add(self, mesh: LogicalMesh, model: Model, solution: Solution, template: str = "") -> None:
        """Takes the answer on one mesh."""
        self.tried.append((mesh.shape, solution.objective_s))
        self.is_cut_short |= solution.is_cut_short
        candidate = Candidate(mesh, model, solution, template)
        if self.best is None or candidate.is_better_than(self.best):
            self.best = candidate

    def add_failure(self, mesh: LogicalMesh, model: Model, failure: InfeasibleBudget, is_over: bool) -> None:
        """Takes the answer on one mesh where nothing fits, or was found to fit before time was over."""
        self.is_cut_short |= is_over and not failure.is_proven
        self.tried.append((mesh.shape, None))
        self.failures.append((model, failure))
