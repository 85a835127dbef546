"""The least budget that works: minimise over choices the largest memory of any live point.

The price ascent of `lagrangian.py` with prices that sum to one gives a bound and lean choices, which usually
meet: one point decides, and the choice leanest there fits at all others. Else the integer program with an
overrun variable closes the rest, where it is small or has to say whether anything fits. The choice returned
attains the budget reported.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...errors import SolverError
from .backend import Limits
from .deadline import NEVER
from .exact import MAX_ROUNDS, least_exact
from .failure import is_over
from .lagrangian import Ascent
from .problem import Choice

if TYPE_CHECKING:
    from .search import Search

CLIMBS = (10, 15, 20, 300)  # price iterations by effort
CELL_LIMITS = (0, 20_000, 40_000, 50_000_000)  # columns of an integer program that is not small, by effort
ROUNDS = (0, 2, 3, MAX_ROUNDS)  # of such a program, by effort
MEAN_SHARE = 1e-3  # price of the mean over all points, which breaks ties
SMALL_CELLS = 3_000  # of a program that is solved to the end in any case
TOLERANCE = 0.002  # of the peak over its bound at which to stop, at most
MISSED_TOLERANCE = 0.005  # the same where it is certain that nothing fits
PROGRAM_TOLERANCE = 0.05  # that up to which a program that is not small is not worth its time
NODE_LIMIT = 20_000  # branch-and-bound nodes of all programs together
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


@dataclass(frozen=True)
class Target:
    """When a lean choice is close enough: one that fits always is.

    Attributes:
        share: of the peak over its bound, where something may still fit.
        missed_share: the same where nothing does.
        budget_bytes: The budget.
        cutoff_bytes: See `SolveOptions`.
    """

    share: float
    missed_share: float
    budget_bytes: float
    cutoff_bytes: float

    def is_met(self, lean: Lean, spare: float = 0.0) -> bool:
        """Say whether to stop at a choice, both shares being larger by `spare`."""
        if lean.peak_bytes <= self.budget_bytes or lean.is_within(self.share + spare):
            return True
        misses = is_over(lean.bound_bytes, self.budget_bytes)
        return misses and (lean.bound_bytes >= self.cutoff_bytes or lean.is_within(self.missed_share + spare))


def least_memory(search: Search) -> Lean:
    """Find the choice whose largest memory is least, or one that is close; the first that fits is enough."""
    ascent = Ascent(
        search.problem,
        search.ascent.relaxation.fresh(),
        0.0,
        search.unit_bytes,
        least=True,
        mean_share=MEAN_SHARE,
    )
    cells = int(search.problem.sizes.sum()) + sum(e.cost.size for e in search.problem.edges)
    is_small = cells <= SMALL_CELLS
    gap = EXACT if is_small else search.options.gap_tolerance
    shares = min(gap, TOLERANCE), min(gap, MISSED_TOLERANCE)
    target = Target(*shares, search.budget_bytes, search.options.cutoff_bytes)
    lean = _climbed(search, ascent, target)
    if not is_small and search.effort < 3:
        target = replace(target, missed_share=PROGRAM_TOLERANCE)
    is_allowed = is_small or cells <= CELL_LIMITS[search.effort]
    if lean is None or (is_allowed and not target.is_met(lean)):
        rounds = MAX_ROUNDS if is_small or lean is None else ROUNDS[search.effort]
        lean = _programmed(search, [r.point for r in ascent.rows], lean, target.share, rounds)
    if lean is None:
        raise SolverError("no allowed choice was found within the limits of the least-budget search")
    return lean


def _climbed(search: Search, ascent: Ascent, target: Target) -> Lean | None:
    """Climb until the leanest choice met is close enough to the bound."""
    problem, unit = search.problem, search.unit_bytes
    ascent.add_row(int(np.argmax(problem.memory(np.zeros(problem.num_nodes, np.int64)))))
    best: Lean | None = None
    climbs, seen, bound = 0, 0, -np.inf
    while climbs < CLIMBS[search.effort]:
        climbs += 1
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
        if ascent.iterations == before or (best and target.is_met(best, MEAN_SHARE)):
            break
    return best if best is None else _sharpened(ascent, best, unit)


def _sharpened(ascent: Ascent, lean: Lean, unit_bytes: float) -> Lean:
    """Once more at the best prices without the mean, which costs the bound up to its share."""
    ascent.mean_share = 0.0
    ascent.bound = -np.inf
    ascent.probe(np.pad(ascent.prices, (0, len(ascent.rows) - len(ascent.prices))))
    bound = max(lean.bound_bytes, ascent.bound * unit_bytes)
    return replace(lean, bound_bytes=min(bound, lean.peak_bytes))


def _programmed(
    search: Search, points: list[int], lean: Lean | None, share: float, max_rounds: int
) -> Lean | None:
    """The integer program over the points met so far; without any choice yet it is not cut short."""
    limits = Limits(share, NODE_LIMIT, NEVER if lean is None else search.options.deadline)
    known = None if lean is None else lean.choice
    found = least_exact(search.problem, points, limits, search.unit_bytes, known, max_rounds)
    search.learn(found)
    if found.choice is None:
        return None
    peak = search.problem.peak_bytes(found.choice)
    bound = found.bound if lean is None else max(lean.bound_bytes, found.bound)
    return Lean(found.choice, peak, min(bound, peak))
