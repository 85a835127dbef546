"""The Lagrangian bound: memory charged at a price instead of limited.

    L(prices) = min_x cost(x) + sum_t prices[t] (mem_t(x) - budget)  <=  optimum,   prices >= 0,

with the inner minimum by `relaxation.py` (exact, or a valid lower bound where tables are split). L is
concave and piecewise linear, and each minimiser x gives the cut cost(x) + prices . excess(x); `master.py`
proposes the next prices from all cuts. Live points enter when a minimiser overruns them.

The least budget is the same method with prices that sum to one and memory for cost. A point without a price
is free to fill up, so most minimisers of prices . mem(x) are useless; a small price e on the mean over all
points breaks the ties, and prices . mem(x) + e mean(x) <= (1 + e) max_t mem_t(x) still gives a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from .master import Master
from .problem import Array, Choice, Problem
from .relaxation import Relaxation, Relaxed
from .rows import Row, mean_row, priced, row_at, tables_of, worst_points

MAX_NEW_ROWS = 2
LEVEL = 0.5  # how far between bound and ceiling the next prices must reach


@dataclass(frozen=True, eq=False)
class Visited:
    """One minimiser: a choice, its cost in seconds and its memory profile in units of the budget."""

    choice: Choice
    cost_s: float
    profile: Array


@dataclass(eq=False)
class Ascent:
    """The state of one price search.

    Attributes:
        problem: A preprocessed problem (no parallel edges).
        relaxation: What bounds its costs.
        budget_bytes: The budget; 0 for the least-budget problem.
        unit_bytes: Bytes per unit of memory, of the order of the budget.
        least: True for the least-budget problem: no costs, prices sum to one.
        mean_share: Price of the mean over all points in the least-budget problem.
        rows: Active rows.
        visited: Every distinct minimiser so far.
        bound: Best bound: seconds, or units of memory for the least budget.
        prices: Prices that gave it, one a row.
        best_run: Evaluation that gave it.
        iterations: Evaluations made.
    """

    problem: Problem
    relaxation: Relaxation
    budget_bytes: float
    unit_bytes: float
    least: bool = False
    mean_share: float = 0.0
    rows: list[Row] = field(default_factory=list)
    visited: list[Visited] = field(default_factory=list)
    bound: float = -np.inf
    prices: Array = field(default_factory=lambda: np.zeros(0))
    best_run: Relaxed | None = None
    iterations: int = 0

    def climb(
        self, gap: float, limit: int, upper: float = np.inf, stop: Callable[[], bool] = lambda: False
    ) -> None:
        """Raise the bound.

        Args:
            gap: Stop when the bound is within this share of the master's ceiling.
            limit: Most evaluations.
            upper: Stop when the bound passes this.
            stop: Asked before each evaluation.
        """
        last = self.iterations + limit
        while self.iterations < last and self.bound < upper and not stop():
            if self.iterations and not self.rows:
                return  # no live point was ever overrun
            master = self._master()
            if master is None:
                self.probe(self._start())
                continue
            highest, ceiling = master.highest()
            if ceiling - self.bound <= gap * abs(ceiling):
                return
            centre = self._padded(self.prices)
            is_nested = np.isfinite(self.bound) and np.isfinite(ceiling)
            level = self.bound + LEVEL * (ceiling - self.bound) if is_nested else -np.inf
            nearest = master.nearest(centre, level) if is_nested and len(centre) > 1 else None
            rose = self.probe(highest if nearest is None else nearest)
            if not rose and nearest is None and not self.probe(0.5 * self._padded(highest) + 0.5 * centre):
                return

    def probe(self, prices: Array) -> bool:
        """Evaluate L at prices (one a row); record bound and minimiser; say whether the bound rose."""
        rows, charges = self.rows, prices
        if self.least:
            rows, charges = [self._mean, *rows], np.append(self.mean_share, prices)
        outcome = self.relaxation.run(*priced(*self._base, rows, charges))
        self.iterations += 1
        value = outcome.value - sum(float(p) * r.capacity for p, r in zip(charges, rows, strict=True))
        self._visit(outcome.choice())
        if value > self.bound:
            self.bound, self.prices, self.best_run = value, prices.copy(), outcome
            return True
        return False

    def add_row(self, point: int) -> None:
        """Make a live point active (nothing happens where it already is)."""
        if all(r.point != point for r in self.rows):
            self.rows.append(row_at(self.problem, point, self.budget_bytes, self.unit_bytes))

    def _padded(self, prices: Array) -> Array:
        return np.pad(prices, (0, len(self.rows) - len(prices)))  # rows are only ever added

    @cached_property
    def _base(self) -> tuple[Sequence[Array], dict[tuple[int, int], Array]]:
        pairs = tables_of(self.problem)
        if not self.least:
            return self.problem.costs, pairs
        return [np.zeros(len(c)) for c in self.problem.costs], {k: _forbidding(t) for k, t in pairs.items()}

    @cached_property
    def _mean(self) -> Row:
        return mean_row(self.problem, self.unit_bytes)

    def _visit(self, choice: Choice) -> None:
        profile = self.problem.memory(choice) / self.unit_bytes
        cost = self.problem.objective(choice)
        if not np.isfinite(cost):
            return  # read from split buckets; not a choice the problem allows
        self.visited.append(Visited(choice, cost, profile))
        limit = self.budget_bytes / self.unit_bytes
        points = [int(profile.argmax())] if self.least else worst_points(profile, limit, MAX_NEW_ROWS)
        for point in points:
            self.add_row(point)

    def _start(self) -> Array:
        n = len(self.rows)
        return np.full(n, 1.0 / n) if self.least and n else np.zeros(n)

    def _master(self) -> Master | None:
        """The cuts of every minimiser at the active rows, or None before there are any."""
        points = [r.point for r in self.rows]
        if not self.visited or not points:
            return None
        slopes = np.array([v.profile[points] for v in self.visited]) - self.budget_bytes / self.unit_bytes
        heights = np.array([self._height(v) for v in self.visited])
        return Master(slopes, heights, self.least)

    def _height(self, visited: Visited) -> float:
        return self.mean_share * float(visited.profile.mean()) if self.least else visited.cost_s


def _forbidding(table: Array) -> Array:
    return np.where(np.isfinite(table), 0.0, np.inf)
