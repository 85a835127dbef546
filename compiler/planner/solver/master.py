"""The small programs over cutting planes that propose prices.

Each minimiser met so far bounds the dual function by height + slope . prices, so its least cut is a
ceiling. Kelley's proposal maximises the ceiling and swings far with several rows. The level method
(Lemarechal, Nemirovski and Nesterov, 1995) takes instead the point nearest the best prices where the
ceiling reaches a level between bound and maximum; here nearest is in the 1-norm, so both programs are
linear.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .backend import Limits, LinearModel, run
from .problem import Array

PRICE_LIMIT = (
    1e6  # in multiples of the largest cost met: prices at this limit mean the budget is out of reach
)


@dataclass(frozen=True, eq=False)
class Master:
    """Cuts theta <= heights + slopes . prices.

    Attributes:
        slopes: Excess memory of each minimiser at each active row, shape [cuts, rows].
        heights: Its cost in seconds, shape [cuts].
        simplex: Prices sum to one (the least budget), instead of being any that are not negative.
    """

    slopes: Array
    heights: Array
    simplex: bool

    @property
    def unit(self) -> float:
        """Divides costs and prices, so that the programs are of order one."""
        return 1.0 if self.simplex else float(np.abs(self.heights).max()) or 1.0

    def highest(self) -> tuple[Array, float]:
        """Return prices that maximise the least cut, and that maximum in seconds."""
        cuts, n = self.slopes.shape
        values = self._solve(
            matrix=np.column_stack([-self.slopes, np.ones(cuts)]),
            high=self.heights / self.unit,
            objective=np.append(np.zeros(n), -1.0),
            free=n,
        )
        if values is None:
            return np.zeros(n), np.inf
        return np.maximum(values[:n], 0.0) * self.unit, float(values[n]) * self.unit

    def nearest(self, centre: Array, level_s: float) -> Array | None:
        """Return the prices nearest `centre` (1-norm) where no cut is below `level_s`, or None."""
        cuts, n = self.slopes.shape
        one = np.eye(n)
        at = centre / self.unit
        values = self._solve(
            matrix=np.block([[-self.slopes, np.zeros((cuts, n))], [one, -one], [-one, -one]]),
            high=np.concatenate([(self.heights - level_s) / self.unit, at, -at]),
            objective=np.append(np.zeros(n), np.ones(n)),
        )
        return None if values is None else np.maximum(values[:n], 0.0) * self.unit

    def _solve(self, matrix: Array, high: Array, objective: Array, free: int | None = None) -> Array | None:
        """Minimise over the first n columns as prices and the rest as given; rows are matrix v <= high."""
        n = self.slopes.shape[1]
        lower, upper = np.zeros(len(objective)), np.full(len(objective), np.inf)
        upper[:n] = 1.0 if self.simplex else PRICE_LIMIT
        if free is not None:
            lower[free] = -np.inf
        low = np.full(len(high), -np.inf)
        if self.simplex:
            matrix = np.vstack([matrix, np.arange(len(objective)) < n])
            low, high = np.append(low, 1.0), np.append(high, 1.0)
        row, column = np.nonzero(matrix)
        sparse = (row, column, matrix[row, column])
        model = LinearModel(objective, lower, upper, np.zeros(len(objective), bool), *sparse, low, high)
        return run(model, Limits()).values
