"""The oracle: every choice in turn, for problems of a few nodes. Tests compare the solver with it."""

from __future__ import annotations

import itertools

import numpy as np

from .problem import Choice, Problem


def brute_force(problem: Problem) -> tuple[Choice, float] | None:
    """Return a best feasible choice and its cost in seconds, or None where nothing is feasible."""
    best: tuple[Choice, float] | None = None
    for choice in _choices(problem):
        cost = problem.objective(choice)
        if (best is None or cost < best[1]) and problem.is_feasible(choice):
            best = choice, cost
    return best


def least_budget(problem: Problem) -> float:
    """Return the least budget in bytes under which an allowed choice exists, or `inf` where none is."""
    allowed = (c for c in _choices(problem) if np.isfinite(problem.objective(c)))
    return min((problem.peak_bytes(c) for c in allowed), default=np.inf)


def _choices(problem: Problem) -> list[Choice]:
    ranges = (range(len(c)) for c in problem.costs)
    return [np.array(c, np.int64) for c in itertools.product(*ranges)]
