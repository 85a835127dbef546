"""The Lagrangian bound: memory charged at a price instead of limited.

    L(prices) = min_x cost(x) + sum_t prices[t] (mem_t(x) - budget)  <=  optimum,   prices >= 0,

with the inner minimum by bucket elimination (exact, or a valid lower bound where buckets are split). L is concave and
piecewise linear; Kelley's cutting planes maximise it: each minimiser x gives the cut cost(x) + prices . excess(x), and the
small master program over all cuts proposes the next prices. Live points enter when a minimiser overruns them. The master's
proposal is damped towards the best prices so far, which avoids the method's usual swings.

The least budget is the same method with prices that sum to one and no cost: max over prices of min_x prices . mem(x).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .backend import Limits, LinearModel, run
from .buckets import BucketPlan, Elimination, eliminate
from .problem import Array, Choice, Problem
from .rows import Row, priced, row_at, tables_of, worst_points

MAX_NEW_ROWS = 2
PRICE_LIMIT = 1e6  # in multiples of the cost without memory: beyond it the budget is treated as out of reach


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
        plan: Its bucket plan.
        budget_bytes: The budget; 0 for the least-budget problem.
        unit_bytes: Bytes per unit of memory, of the order of the budget.
        least: True for the least-budget problem: no costs, prices sum to one.
        rows: Active rows.
        visited: Every distinct minimiser so far.
        bound: Best bound: seconds, or units of memory for the least budget.
        prices: Prices that gave it, one a row.
        best_run: Elimination that gave it.
        iterations: Eliminations made.
    """

    problem: Problem
    plan: BucketPlan
    budget_bytes: float
    unit_bytes: float
    least: bool = False
    rows: list[Row] = field(default_factory=list)
    visited: list[Visited] = field(default_factory=list)
    bound: float = -np.inf
    prices: Array = field(default_factory=lambda: np.zeros(0))
    best_run: Elimination | None = None
    iterations: int = 0

    def climb(self, gap: float, limit: int, upper: float = np.inf) -> None:
        """Raise the bound until it is within `gap` of the master's, or passes `upper`, or `limit` runs are made."""
        for _ in range(limit):
            proposal, ceiling = self._master()
            if ceiling - self.bound <= gap * max(abs(ceiling), 1e-30) or self.bound >= upper:
                return
            if not self.probe(proposal) and np.isfinite(self.bound):
                damped = 0.5 * self._padded(proposal) + 0.5 * self._padded(self.prices)
                if not self.probe(damped) and not self._is_moving(ceiling, gap):
                    return

    def probe(self, prices: Array) -> bool:
        """Evaluate L at prices (one a row); record the bound and the minimiser; say whether the bound rose."""
        costs, pairs = self._base()
        unary, pair = priced(costs, pairs, self.rows, prices)
        outcome = eliminate(self.plan, unary, list(pair.values()))
        self.iterations += 1
        value = outcome.value - sum(float(p) * r.capacity for p, r in zip(prices, self.rows, strict=True))
        self._visit(outcome.choice())
        if value > self.bound:
            self.bound, self.prices, self.best_run = value, prices.copy(), outcome
            return True
        return False

    def add_row(self, point: int) -> None:
        """Make a live point active (nothing happens where it already is)."""
        if all(r.point != point for r in self.rows):
            self.rows.append(row_at(self.problem, point, self.budget_bytes, self.unit_bytes))

    def _is_moving(self, ceiling: float, gap: float) -> bool:
        return ceiling - self.bound > 0.1 * gap * max(abs(ceiling), 1e-30)

    def _padded(self, prices: Array) -> Array:
        return np.pad(prices, (0, len(self.rows) - len(prices)))  # rows are only ever added

    def _base(self) -> tuple[Sequence[Array], dict[tuple[int, int], Array]]:
        pairs = tables_of(self.problem)
        if not self.least:
            return self.problem.costs, pairs
        return [np.zeros(len(c)) for c in self.problem.costs], {k: _forbidding(t) for k, t in pairs.items()}

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

    def _master(self) -> tuple[Array, float]:
        """Return the prices that maximise the least cut, and that maximum."""
        points = [r.point for r in self.rows]
        if not self.visited or not points:
            return np.full(len(points), 1.0 / max(len(points), 1) if self.least else 0.0), np.inf
        slopes = np.array([v.profile[points] for v in self.visited]) - self.budget_bytes / self.unit_bytes
        heights = np.zeros(len(self.visited)) if self.least else np.array([v.cost_s for v in self.visited])
        unit = 1.0 if self.least else float(np.abs(heights).max()) or 1.0
        return _maximise(slopes, heights / unit, self.least, unit)


def _forbidding(table: Array) -> Array:
    return np.where(np.isfinite(table), 0.0, np.inf)


def _maximise(slopes: Array, heights: Array, simplex: bool, unit: float) -> tuple[Array, float]:
    """Maximise theta with theta <= heights + slopes . prices; prices in the simplex or in [0, PRICE_LIMIT]."""
    cuts, n = slopes.shape
    row = np.repeat(np.arange(cuts), n + 1)
    column = np.tile(np.arange(n + 1), cuts)
    value = np.column_stack([-slopes, np.ones(cuts)]).ravel()
    low, high = np.full(cuts, -np.inf), heights
    if simplex:
        row, column = np.append(row, np.full(n, cuts)), np.append(column, np.arange(n))
        value, low, high = np.append(value, np.ones(n)), np.append(low, 1.0), np.append(high, 1.0)
    lower, upper = np.append(np.zeros(n), -np.inf), np.append(np.full(n, 1.0 if simplex else PRICE_LIMIT), np.inf)
    objective = np.append(np.zeros(n), -1.0)
    model = LinearModel(objective, lower, upper, np.zeros(n + 1, bool), row, column, value, low, high)
    values = run(model, Limits()).values
    if values is None:
        return np.zeros(n), np.inf
    return np.maximum(values[:n], 0.0) * unit, float(values[n]) * unit
