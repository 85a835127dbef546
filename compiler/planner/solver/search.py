"""The state the steps of the solver share: the shrunk problem, the incumbent, the bound, the work done."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from .exact import Exact
from .lagrangian import Ascent
from .least import Lean
from .polish import Polisher
from .preprocess import Reduced
from .problem import Array, Choice, Problem
from .relaxation import relax
from .rows import worst_points
from .solution import Solution, SolveOptions, Statistics

NEAR = 0.002  # share of the budget below it at which a live point counts as nearly full
NEAR_POINTS = 8
EXACT = 1e-9  # relative difference below which bound and objective are the same number
SAME = EXACT / 10  # that of two costs, smaller so that a few ties in a row stay within the other


class Search:
    """One solve in progress.

    Attributes:
        original: The caller's problem.
        problem: The shrunk problem the steps work on.
        options: The caller's options.
        ascent: The Lagrangian bound and every choice it met.
        best: The cheapest feasible choice so far (of the shrunk problem), or None.
        best_s: Its cost.
        lean: The choice of least memory found, where it was looked for.
        bound_s: The best certified bound.
        points: Live points that integer programs found binding.
        polisher: Local search on the shrunk problem.
    """

    def __init__(self, original: Problem, reduced: Reduced, options: SolveOptions) -> None:
        self.original = original
        self.reduced = reduced
        self.problem = reduced.problem
        self.options = options
        problem = self.problem
        budget = np.inf if problem.budget_bytes is None else problem.budget_bytes
        self.unit_bytes = abs(budget) if np.isfinite(budget) and budget != 0 else 1.0
        self.ascent = Ascent(problem, relax(problem, options.table_limit), budget, self.unit_bytes)
        self.polisher = Polisher(problem, options.deadline)
        self.best: Choice | None = None
        self.best_s = np.inf
        self.lean: Lean | None = None
        self.bound_s = -np.inf
        self.points: list[int] = []
        self.classes = 0
        self.programs = 0
        self.search_nodes = 0
        self.phase_cpu_s: dict[str, float] = {}

    @property
    def budget_bytes(self) -> float:
        """The budget, infinite where there is none."""
        return np.inf if self.problem.budget_bytes is None else self.problem.budget_bytes

    @property
    def effort(self) -> int:
        """How hard to search from now on: what was asked for, and 0 once the time is over."""
        return 0 if self.options.deadline.is_over() else self.options.effort

    def offer(self, choice: Choice) -> bool:
        """Take a choice as the incumbent where it is feasible and better; say whether it was taken.

        Better is cheaper or, at the same cost, of lower peak memory; of equal ones the first stays.
        """
        if not self.problem.is_feasible(choice):
            return False
        cost = self.problem.objective(choice)
        if not self._is_better(choice, cost):
            return False
        self.best, self.best_s = choice.copy(), cost
        return True

    def _is_better(self, choice: Choice, cost: float) -> bool:
        if self.best is None or abs(cost - self.best_s) > SAME * abs(self.best_s):
            return cost < self.best_s
        return self.problem.peak_bytes(choice) < self.problem.peak_bytes(self.best)

    def offer_polished(self, choice: Choice) -> None:
        """Offer a choice, and, where it fits, what local search makes of it."""
        if self.problem.is_feasible(choice):
            self.offer(choice)
            if self.is_finished(0.0):
                return
            self.offer(self.polisher.improve(choice, [v.choice for v in self.ascent.visited[-4:]]))

    def binding_points(self) -> list[int]:
        """Live points to start an integer program with: priced, met before, or nearly full at present."""
        points = dict.fromkeys([*(r.point for r in self.ascent.rows), *self.points])
        if self.best is not None and points:
            near = worst_points(self.problem.memory(self.best), self.budget_bytes, NEAR_POINTS, NEAR)
            points.update(dict.fromkeys(near))
        return list(points)

    def raise_bound(self, bound_s: float) -> None:
        """Take a certified bound where it is better."""
        self.bound_s = max(self.bound_s, bound_s)

    def is_done(self, share: float = 1.0) -> bool:
        """Say whether the incumbent is within (a share of) the tolerance of the bound, or cannot matter."""
        if self.best is None:
            return False
        if self.bound_s > self.options.cutoff_s * (1 + EXACT):
            return True
        tolerance = max(share * self.options.gap_tolerance, EXACT)
        return self.best_s - self.bound_s <= tolerance * abs(self.best_s)

    def is_finished(self, share: float = 1.0) -> bool:
        """Say whether to stop: the search is done, or its time is over and it has an incumbent."""
        return self.is_done(share) or (self.best is not None and self.options.deadline.is_over())

    def learn(self, work: Exact) -> None:
        """Add up the work of integer programs and keep the live points they made active."""
        self.points.extend(t for t in work.points if t not in self.points)
        self.programs += work.rounds
        self.search_nodes += work.nodes

    def timed(self, step: Callable[[Search], None]) -> None:
        """Run a step and add up its CPU seconds."""
        start = time.process_time()
        step(self)
        name = step.__name__
        self.phase_cpu_s[name] = self.phase_cpu_s.get(name, 0.0) + time.process_time() - start

    def solution(self) -> Solution:
        """Return the incumbent in the caller's numbering."""
        if self.best is None:
            raise RuntimeError("no step found a feasible choice")
        choice = self.reduced.restore(self.best)
        cost = self.original.objective(choice)
        is_optimal = cost - self.bound_s <= EXACT * abs(cost)
        bound = cost if is_optimal else min(self.bound_s, cost)
        return Solution(
            choice,
            cost,
            bound,
            self.original.peak_bytes(choice),
            is_optimal,
            self.options.deadline.is_over() and not self.is_done(),
            self._statistics(),
            () if is_optimal or not self.options.wants_floors else self._floors(),
        )

    def _floors(self) -> tuple[Array, ...]:
        """Min-marginals under the best prices; what shrinking dropped may cost as little as anything."""
        found = [np.full(k, self.bound_s) for k in self.original.sizes]
        run = self.ascent.best_run
        if run is not None:
            shift = self.ascent.bound - run.value
            slack = EXACT * max(abs(self.best_s), abs(self.best_s - shift))
            for floor, kept, marginals in zip(found, self.reduced.kept, run.marginals(), strict=True):
                floor[kept] = np.maximum(self.bound_s, marginals + shift - slack)
        return tuple(found)

    def _statistics(self) -> Statistics:
        return Statistics(
            nodes=self.original.num_nodes,
            strategies=int(self.original.sizes.sum()),
            reduced_strategies=int(self.problem.sizes.sum()),
            table_entries=self.ascent.relaxation.entries,
            is_exact_elimination=self.ascent.relaxation.is_exact,
            classes=self.classes,
            active_rows=len(self.ascent.rows),
            eliminations=self.ascent.iterations,
            integer_programs=self.programs,
            search_nodes=self.search_nodes,
            phase_cpu_s=dict(self.phase_cpu_s),
        )
