"""The solver's steps, in the order `solve.STEPS` runs them."""

from __future__ import annotations

import numpy as np

from .backend import Limits
from .bucket_plan import plan_buckets
from .exact import solve_exact
from .failure import InfeasibleBudget, NoAllowedChoice
from .folding import Folded, fold, refine
from .lagrangian import Ascent
from .least import least_memory
from .marginals import min_marginals
from .preprocess import preprocess, restrict
from .problem import Choice, Problem
from .search import EXACT, Search

CLIMBS = (8, 20, 30, 120)  # price iterations by effort
NODE_LIMITS = (0, 20, 100, 1_000_000)  # branch-and-bound nodes of one program, by effort
ROUNDS = (0, 2, 3, 60)  # programs of one step, by effort
CELL_LIMITS = (0, 3_000, 8_000, 50_000_000)  # columns of one program, by effort
SPLIT_CLIMB = 6  # price iterations where tables are split: their bound is weak whatever the prices
SPLIT_CELLS = 20  # so many times larger programs are tried there: their relaxation is the better bound
FIRST_GAP = 0.05  # of the program that only has to find some allowed choice
POOL = 8  # choices whose strategies are recombined


def relax_without_memory(search: Search) -> None:
    """Minimise cost alone; where that fits the budget and no table was split, it is the optimum."""
    ascent = search.ascent
    ascent.probe(np.zeros(0))
    search.raise_bound(ascent.bound)
    if ascent.visited:
        search.offer(ascent.visited[-1].choice)
        if not search.is_done():
            search.offer_polished(ascent.visited[-1].choice)


def price_memory(search: Search) -> None:
    """Raise the Lagrangian bound, and keep the minimisers that fit."""
    gap = max(search.options.gap_tolerance / 4, EXACT / 10)
    limit = CLIMBS[search.options.effort] if search.ascent.plan.is_exact else SPLIT_CLIMB
    search.ascent.climb(gap, limit, upper=_dearest(search))
    search.raise_bound(search.ascent.bound)
    fitting = [v for v in search.ascent.visited if search.problem.is_feasible(v.choice)]
    for visited in sorted(fitting, key=lambda v: v.cost_s)[:2]:
        search.offer_polished(visited.choice)


def ensure_feasible(search: Search) -> None:
    """Where nothing met so far fits, find the choice of least memory, or report that none fits."""
    if search.best is not None:
        return
    if not np.isfinite(search.budget_bytes) or not search.problem.num_points:
        _find_allowed(search)
        return
    lean = least_memory(search)
    if lean.peak_bytes > search.budget_bytes:
        memory = search.problem.memory(lean.choice)
        choice = search.reduced.restore(lean.choice)
        raise InfeasibleBudget(
            search.budget_bytes, lean.peak_bytes, lean.bound_bytes, int(memory.argmax()), choice
        )
    search.offer_polished(lean.choice)


def _find_allowed(search: Search) -> None:
    """Split tables can read back a forbidden pair; the integer program then finds an allowed choice."""
    found = solve_exact(search.problem, [], Limits(FIRST_GAP), _reference(search))
    search.learn(found)
    search.raise_bound(found.bound)
    if found.choice is None:
        raise NoAllowedChoice
    search.offer_polished(found.choice)


def recombine(search: Search) -> None:
    """Integer program over only those strategies that the best choices met so far use."""
    for _ in range(max(search.options.effort, 1)):
        pool = _pool(search)
        before = search.best_s
        for size in (POOL, POOL // 2, POOL // 4):
            kept = [np.unique([c[i] for c in pool[: size + 1]]) for i in range(search.problem.num_nodes)]
            if _solve_restricted(search, kept, is_relaxation=False):
                break
        if search.is_done() or not search.best_s < before:
            return


def tie(search: Search) -> None:
    """Solve with repeated blocks tied, then untie by local search and recombination.

    Exact elimination already prices whole layers, so below the highest effort this is for split tables only.
    """
    if search.ascent.plan.is_exact and search.options.effort < 3:
        return
    partition = search.options.partition
    labels = refine(search.problem) if partition is None else np.asarray(partition)
    labels = _compatible(search, labels)
    folded = fold(search.problem, labels)
    search.classes = folded.problem.num_nodes
    if search.classes > 0.7 * search.problem.num_nodes:
        return
    choice = _solve_tied(search, folded)
    if choice is not None:
        search.offer_polished(folded.unfold(choice))
        recombine(search)


def branch(search: Search) -> None:
    """Drop strategies that no better choice can use, then branch on the rest; the answer is certified."""
    kept = _unfixed(search)
    _solve_restricted(search, kept, is_relaxation=True)


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


def _solve_restricted(search: Search, kept: list[np.ndarray], is_relaxation: bool) -> bool:
    """Solve over some strategies only and say whether that was small enough to try.

    With `is_relaxation` the dropped strategies are proven useless, so the bound holds for the whole problem.
    """
    part = restrict(search.problem, kept)
    inner = preprocess(part.problem)
    if inner is None:
        if is_relaxation:
            search.raise_bound(search.best_s)
        return True
    if not _is_small(search, inner.problem, wide=is_relaxation):
        return False
    found = solve_exact(
        inner.problem,
        search.binding_points(),
        _limits(search),
        _reference(search),
        ROUNDS[search.options.effort],
    )
    search.learn(found)
    others = [part.restore(inner.restore(c)) for c in found.rejected]
    if found.choice is not None:
        search.offer_polished(part.restore(inner.restore(found.choice)))
    if others and search.best is not None:
        search.offer(search.polisher.improve(search.best, others))
    if is_relaxation:
        search.raise_bound(min(found.bound, search.best_s))
    return True


def _reference(search: Search) -> float:
    return max(abs(search.best_s if search.best is not None else search.bound_s), 1e-300)


def _is_small(search: Search, problem: Problem, wide: bool) -> bool:
    """Say whether a program is within the effort's limit (`wide`: with more room where tables are split)."""
    cells = int(problem.sizes.sum()) + sum(e.cost.size for e in problem.edges if min(e.cost.shape) > 1)
    larger = SPLIT_CELLS if wide and not search.ascent.plan.is_exact else 1
    return cells <= larger * CELL_LIMITS[search.options.effort]


def _limits(search: Search) -> Limits:
    """Ask a program for a quarter of the present gap: to close it over a restriction is wasted work."""
    options = search.options
    present = (
        (search.best_s - search.bound_s) / max(abs(search.best_s), 1e-300)
        if search.best is not None
        else 0.04
    )
    share = 0.25 if options.effort < 3 else 0.1
    gap = max(options.gap_tolerance / 2, share * present, EXACT / 10)
    return Limits(gap, NODE_LIMITS[options.effort], options.time_limit_s)


def _solve_tied(search: Search, folded: Folded) -> Choice | None:
    inner = preprocess(folded.problem)
    if inner is None:
        return None
    problem = inner.problem
    plan = plan_buckets(problem.sizes, [(e.i, e.j) for e in problem.edges], search.options.table_limit)
    ascent = Ascent(problem, plan, search.budget_bytes, search.unit_bytes)
    ascent.probe(np.zeros(0))
    if plan.is_exact and ascent.visited and problem.is_feasible(ascent.visited[0].choice):
        return inner.restore(ascent.visited[0].choice)
    if not _is_small(search, problem, wide=True):
        return None
    rounds = ROUNDS[search.options.effort]
    found = solve_exact(problem, search.binding_points(), _limits(search), _reference(search), rounds)
    search.learn(found)
    return None if found.choice is None else inner.restore(found.choice)


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
    marginals = min_marginals(ascent.best_run)
    return [np.flatnonzero(m <= limit + slack) for m in marginals]
