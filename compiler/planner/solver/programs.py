"""Integer programs over part of a search: over some strategies only, or with repeated blocks tied.

How large a program may be, and how far it is solved, goes by the effort; see the constants.
"""

from __future__ import annotations

import numpy as np

from .backend import Limits
from .exact import MAX_ROUNDS, solve_exact
from .folding import Folded
from .lagrangian import Ascent
from .preprocess import preprocess, restrict
from .problem import Choice, Problem
from .relaxation import relax
from .search import EXACT, Search

NODE_LIMITS = (0, 20, 100, 1_000_000)  # branch-and-bound nodes of one program, by effort
ROUNDS = (0, 2, 3, 60)  # programs of one step, by effort
CELL_LIMITS = (0, 3_000, 8_000, 50_000_000)  # columns of one program, by effort
TINY_CELLS = 3_000  # columns of a program that is solved to the end
SPLIT_CELLS = 20  # where tables are split, so many times larger programs are tried for their better bound
# The same for programs with repeated blocks tied, which give no bound: one of 128,000 columns (gpt on
# h100:8x8 with the least budget) took more than 200 s.
TIED_CELLS = 4


def solve_restricted(search: Search, kept: list[np.ndarray], is_relaxation: bool) -> bool:
    """Solve over some strategies only and say whether that was small enough to try.

    With `is_relaxation` the dropped strategies are proven useless, so the bound holds for the whole problem.
    """
    part = restrict(search.problem, kept)
    inner = preprocess(part.problem)
    if inner is None:
        if is_relaxation:
            search.raise_bound(search.best_s)
        return True
    if not _is_small(search, inner.problem, SPLIT_CELLS if is_relaxation else 1):
        return False
    found = solve_exact(
        inner.problem,
        search.binding_points(),
        _limits(search, inner.problem),
        reference_cost(search),
        _rounds(search, inner.problem),
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


def solve_tied(search: Search, folded: Folded) -> Choice | None:
    """Solve a quotient problem and return its choice, or None where it is too large or nothing fits."""
    inner = preprocess(folded.problem)
    if inner is None:
        return None
    problem = inner.problem
    relaxation = relax(problem, search.options.table_limit)
    ascent = Ascent(problem, relaxation, search.budget_bytes, search.unit_bytes)
    ascent.probe(np.zeros(0))
    if relaxation.is_exact and ascent.visited and problem.is_feasible(ascent.visited[0].choice):
        return inner.restore(ascent.visited[0].choice)
    if not _is_small(search, problem, TIED_CELLS):
        return None
    rounds = _rounds(search, problem)
    found = solve_exact(
        problem, search.binding_points(), _limits(search, problem), reference_cost(search), rounds
    )
    search.learn(found)
    return None if found.choice is None else inner.restore(found.choice)


def _is_small(search: Search, problem: Problem, split_room: int) -> bool:
    """Say whether a program is within the effort's limit, so many times larger where tables are split."""
    larger = 1 if search.ascent.relaxation.is_exact else split_room
    return _cells(problem) <= larger * CELL_LIMITS[search.options.effort]


def _rounds(search: Search, problem: Problem) -> int:
    """Most programs of one step; a tiny one is cheap enough to see through to the end."""
    return MAX_ROUNDS if _cells(problem) <= TINY_CELLS else ROUNDS[search.options.effort]


def _cells(problem: Problem) -> int:
    return int(problem.sizes.sum()) + sum(e.cost.size for e in problem.edges if min(e.cost.shape) > 1)


def _limits(search: Search, problem: Problem) -> Limits:
    """Ask a program that is not tiny for a quarter of the present gap: to close it is often wasted work."""
    options = search.options
    present = (
        (search.best_s - search.bound_s) / max(abs(search.best_s), 1e-300)
        if search.best is not None
        else 0.04
    )
    share = 0.25 if options.effort < 3 else 0.1
    if _cells(problem) <= TINY_CELLS:
        share = 0.0
    gap = max(options.gap_tolerance / 2, share * present, EXACT / 10)
    return Limits(gap, NODE_LIMITS[options.effort], options.deadline)


def reference_cost(search: Search) -> float:
    """Return a cost of the order of the optimum, in seconds."""
    return max(abs(search.best_s if search.best is not None else search.bound_s), 1e-300)
