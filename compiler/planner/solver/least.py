"""The least budget that works: minimise over choices the largest memory of any live point.

The price ascent of `lagrangian.py` with prices that sum to one gives a bound and lean choices, which usually
meet: one point decides, and the choice leanest there fits at all others. Else the integer program with an
overrun variable closes the rest where it is small enough. The choice returned attains the budget reported.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...errors import SolverError
from .backend import Limits
from .exact import least_exact
from .lagrangian import Ascent
from .problem import Choice

if TYPE_CHECKING:
    from .search import Search

CLIMBS = (10, 15, 20, 300)  # price iterations by effort
CELL_LIMITS = (20_000, 60_000, 100_000, 50_000_000)  # columns of the integer program, by effort
MEAN_SHARE = 1e-3  # price of the mean over all points, which breaks ties
SMALL_CELLS = 10_000  # of a program that is solved to the end in any case
TOLERANCE = 0.002  # of the peak over its bound at which to stop, at most
EXACT = 1e-9


@dataclass(frozen=True, eq=False)
class Lean:
    """The choice of least memory found.

    Attributes:
        choice: Of the shrunk problem, shape [num_nodes].
        peak_bytes: Its largest memory.
        bound_bytes: No choice has a smaller largest memory.
    """

    choice: Choice
    peak_bytes: float
    bound_bytes: float

    def is_within(self, share: float) -> bool:
        """Say whether the peak is within a share of the bound."""
        return self.peak_bytes <= self.bound_bytes + max(share, EXACT) * abs(self.bound_bytes)


def least_memory(search: Search) -> Lean:
    """Find the choice whose largest memory is least, or one that is close; the first that fits is enough."""
    effort = search.options.effort
    ascent = Ascent(
        search.problem,
        search.ascent.relaxation.fresh(),
        0.0,
        search.unit_bytes,
        least=True,
        mean_share=MEAN_SHARE,
    )
    cells = int(search.problem.sizes.sum()) + sum(e.cost.size for e in search.problem.edges)
    tolerance = EXACT if cells <= SMALL_CELLS else min(search.options.gap_tolerance, TOLERANCE)
    lean = _climbed(search, ascent, CLIMBS[effort], tolerance)
    if lean is not None and lean.peak_bytes <= search.budget_bytes:
        return lean
    if lean is None or (not lean.is_within(tolerance) and cells <= CELL_LIMITS[effort]):
        lean = _programmed(search, [r.point for r in ascent.rows], lean)
    if lean is None:
        raise SolverError("no allowed choice was found within the limits of the least-budget search")
    return lean


def _climbed(search: Search, ascent: Ascent, limit: int, tolerance: float) -> Lean | None:
    """Climb until the leanest choice met is within the tolerance of the bound."""
    problem, unit = search.problem, search.unit_bytes
    ascent.add_row(int(np.argmax(problem.memory(np.zeros(problem.num_nodes, np.int64)))))
    best: Lean | None = None
    seen, bound = 0, -np.inf
    for _ in range(limit):
        before = ascent.iterations
        ascent.climb(EXACT, 1)
        bound = max(bound, ascent.bound * unit / (1 + MEAN_SHARE))
        for visited in ascent.visited[seen:]:
            peak = problem.peak_bytes(visited.choice)
            if best is None or peak < best.peak_bytes:
                best = Lean(visited.choice, peak, bound)
        seen = len(ascent.visited)
        best = None if best is None else replace(best, bound_bytes=min(bound, best.peak_bytes))
        if best is not None and best.peak_bytes <= search.budget_bytes:
            return best
        if ascent.iterations == before or (best is not None and best.is_within(tolerance + MEAN_SHARE)):
            break
    return best if best is None else _sharpened(ascent, best, unit)


def _sharpened(ascent: Ascent, lean: Lean, unit_bytes: float) -> Lean:
    """Once more at the best prices without the mean, which costs the bound up to its share."""
    ascent.mean_share = 0.0
    ascent.bound = -np.inf
    ascent.probe(np.pad(ascent.prices, (0, len(ascent.rows) - len(ascent.prices))))
    bound = max(lean.bound_bytes, ascent.bound * unit_bytes)
    return replace(lean, bound_bytes=min(bound, lean.peak_bytes))


def _programmed(search: Search, points: list[int], lean: Lean | None) -> Lean | None:
    """The integer program over the points met so far."""
    found = least_exact(search.problem, points, Limits(EXACT, 20_000), search.unit_bytes)
    search.learn(found)
    if found.choice is None:
        return lean
    peak = search.problem.peak_bytes(found.choice)
    if lean is None or peak < lean.peak_bytes:
        return Lean(found.choice, peak, min(found.bound, peak))
    return replace(lean, bound_bytes=min(max(lean.bound_bytes, found.bound), lean.peak_bytes))
