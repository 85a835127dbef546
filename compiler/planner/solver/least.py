"""The least budget that works: minimise over choices the largest memory of any live point.

The price ascent of `lagrangian.py` with prices that sum to one gives a bound and good choices; the integer
program with an overrun variable then closes the rest where it is small enough. The choice returned attains
the budget reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...errors import SolverError
from .backend import Limits
from .exact import least_exact
from .lagrangian import Ascent
from .problem import Choice

if TYPE_CHECKING:
    from .search import Search

CLIMBS = (30, 60, 120, 300)
CELL_LIMITS = (20_000, 60_000, 400_000, 50_000_000)


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


def least_memory(search: Search) -> Lean:
    """Find the choice whose largest memory is least."""
    problem = search.problem
    ascent = Ascent(problem, search.ascent.plan, 0.0, search.unit_bytes, least=True)
    ascent.add_row(int(np.argmax(problem.memory(np.zeros(problem.num_nodes, np.int64)))))
    ascent.climb(1e-9, CLIMBS[search.options.effort])
    peaks = [v.profile.max() * search.unit_bytes for v in ascent.visited]
    best = ascent.visited[int(np.argmin(peaks))].choice if peaks else None
    bound = ascent.bound * search.unit_bytes
    cells = int(problem.sizes.sum()) + sum(e.cost.size for e in problem.edges)
    if best is None or (
        problem.peak_bytes(best) > bound + 1e-9 * abs(bound) and cells <= CELL_LIMITS[search.options.effort]
    ):
        points = [r.point for r in ascent.rows]
        found = least_exact(problem, points, Limits(1e-9, 20_000), search.unit_bytes)
        search.learn(found)
        bound = max(bound, found.bound)
        if found.choice is not None and (
            best is None or problem.peak_bytes(found.choice) < problem.peak_bytes(best)
        ):
            best = found.choice
    if best is None:
        raise SolverError("no allowed choice was found within the limits of the least-budget search")
    peak = problem.peak_bytes(best)
    return Lean(best, peak, min(bound, peak))  # rounding can lift the bound a hair above the peak
