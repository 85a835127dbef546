"""The solver's steps, in the order `solve.STEPS` runs them."""

from __future__ import annotations

import numpy as np

from .backend import Limits
from .exact import solve_exact
from .failure import InfeasibleBudget, NoAllowedChoice, is_over
from .folding import fold, refine
from .least import least_memory
from .problem import Choice
from .programs import reference_cost, solve_restricted, solve_tied
from .search import EXACT, Search

CLIMBS = (8, 20, 30, 120)  # price iterations by effort
RELAX_ROUNDS = 4  # of diffusion where memory is not priced
RELAX_SHARE = 0.1  # of the tolerance that is worth another of them
STALLED = 1e-5  # a rise of the bound by less than this share is not worth another
FIRST_GAP = 0.05  # of the program that only has to find some allowed choice
POOL = 8  # choices whose strategies are recombined


def relax_without_memory(search: Search) -> None:
    """Minimise cost alone; where that fits the budget and no table was split, it is the optimum."""
    ascent = search.ascent
    for _ in range(1 if ascent.relaxation.is_exact else RELAX_ROUNDS):
        before = search.bound_s
        ascent.probe(np.zeros(len(ascent.rows)))
        search.raise_bound(ascent.bound)
        if ascent.visited:
            search.offer(ascent.visited[-1].choice)
            if not search.is_done(RELAX_SHARE):
                search.offer_polished(ascent.visited[-1].choice)
        stalled = search.bound_s - before < STALLED * abs(search.bound_s)
        if stalled or search.is_finished(RELAX_SHARE) or search.options.deadline.is_over():
            return


def price_memory(search: Search) -> None:
    """Raise the Lagrangian bound, and keep the minimisers that fit."""
    gap = max(search.options.gap_tolerance / 4, EXACT / 10)
    ascent = search.ascent
    first = ascent.iterations
    ascent.climb(
        gap,
        CLIMBS[search.effort],
        upper=_dearest(search),
        stop=lambda: search.is_finished() or ascent.iterations - first >= CLIMBS[search.effort],
    )
    search.raise_bound(search.ascent.bound)
    fitting = [v for v in search.ascent.visited if search.problem.is_feasible(v.choice)]
    for visited in sorted(fitting, key=lambda v: v.cost_s)[:2]:
        search.offer_polished(visited.choice)


def ensure_feasible(search: Search) -> None:
    """Where the cheapest choice does not fit, look for one that does, or prove that there is none."""
    if search.best is not None:
        return
    if not np.isfinite(search.budget_bytes) or not search.problem.num_points:
        _find_allowed(search)
        return
    search.lean = least_memory(search)
    search.offer(search.lean.choice)
    if is_over(search.lean.bound_bytes, search.budget_bytes):
        report_misfit(search)


def report_misfit(search: Search) -> None:
    """Say that nothing was found to fit, where that is so."""
    lean = search.lean
    if search.best is not None or lean is None:
        return
    point = int(search.problem.memory(lean.choice).argmax())
    choice = search.reduced.restore(lean.choice)
    raise InfeasibleBudget(search.budget_bytes, lean.peak_bytes, lean.bound_bytes, point, choice)


def _find_allowed(search: Search) -> None:
    """Split tables can read back a forbidden pair; the integer program then finds an allowed choice."""
    found = solve_exact(search.problem, [], Limits(FIRST_GAP), reference_cost(search))
    search.learn(found)
    search.raise_bound(found.bound)
    if found.choice is None:
        raise NoAllowedChoice
    search.offer_polished(found.choice)


def recombine(search: Search) -> None:
    """Integer program over only those strategies that the best choices met so far use."""
    for _ in range(max(search.options.effort, 1)):
        if search.is_finished():
            return
        pool = _pool(search)
        before = search.best_s
        for size in (POOL, POOL // 2, POOL // 4):
            kept = [np.unique([c[i] for c in pool[: size + 1]]) for i in range(search.problem.num_nodes)]
            if solve_restricted(search, kept, is_relaxation=False):
                break
        if not search.best_s < before:
            return


def tie(search: Search) -> None:
    """Solve with repeated blocks tied, then untie by local search and recombination.

    Exact elimination already prices whole layers, so below the highest effort this is for split tables only.
    """
    if search.ascent.relaxation.is_exact and search.options.effort < 3:
        return
    partition = search.options.partition
    labels = refine(search.problem) if partition is None else np.asarray(partition)
    labels = _compatible(search, labels)
    folded = fold(search.problem, labels)
    search.classes = folded.problem.num_nodes
    if search.classes > 0.7 * search.problem.num_nodes:
        return
    choice = solve_tied(search, folded)
    if choice is not None:
        search.offer_polished(folded.unfold(choice))
        recombine(search)


def branch(search: Search) -> None:
    """Drop strategies that no better choice can use, then branch on the rest; the answer is certified."""
    kept = _unfixed(search)
    solve_restricted(search, kept, is_relaxation=True)


def _dearest(search: Search) -> float:
    """A cost no allowed choice passes: beyond it, prices prove that nothing fits."""

    def top(table: np.ndarray) -> float:
        return float(np.where(np.isfinite(table), table, -np.inf).max())

    problem = search.problem
    total = sum(top(c) for c in problem.costs) + sum(top(e.cost) for e in problem.edges)
    return total + abs(total) + 1e-300


def _pool(search: Search) -> list[Choice]:
    """The incumbent and the minimisers nearest the best prices."""
    ascent = search.ascent
    points = [r.point for r in ascent.rows]
    prices = np.pad(ascent.prices, (0, len(points) - len(ascent.prices)))
    reach = [v.cost_s + float(prices @ v.profile[points]) for v in ascent.visited]
    order = np.argsort(reach, kind="stable")[:POOL]
    best = [] if search.best is None else [search.best]
    return best + [ascent.visited[n].choice for n in order]


def _compatible(search: Search, labels: np.ndarray) -> np.ndarray:
    """Split classes whose members kept different strategies."""
    marks: dict[tuple[int, bytes], int] = {}
    kept = search.reduced.kept
    return np.array(
        [marks.setdefault((int(c), k.tobytes()), len(marks)) for c, k in zip(labels, kept, strict=True)]
    )


def _unfixed(search: Search) -> list[np.ndarray]:
    """Strategies whose min-marginal under the best prices does not pass the incumbent."""
    ascent = search.ascent
    if ascent.best_run is None or search.best is None:
        return [np.arange(k) for k in search.problem.sizes]
    shift = ascent.bound - ascent.best_run.value
    limit = search.best_s - shift
    slack = EXACT * max(abs(search.best_s), abs(limit))
    marginals = ascent.best_run.marginals()
    return [np.flatnonzero(m <= limit + slack) for m in marginals]
