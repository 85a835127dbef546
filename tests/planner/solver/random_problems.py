"""Random small problems for property tests: every feature, few enough choices to enumerate."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from meshwright.compiler.planner.solver import Edge, EdgeUsage, Problem, Usage, make_problem

COST_S = 1e-5


def random_problem(seed: int, budget: bool | None = None) -> Problem:
    """Build a problem of at most five nodes and four strategies.

    Args:
        seed: Of the random numbers.
        budget: Whether there is a memory budget; None leaves it to chance.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, int(rng.integers(1, 6)))
    costs = [_table(rng, (k,), 0.05) for k in sizes]
    edges = _edges(rng, sizes)
    points = int(rng.integers(1, 6))
    usages = [_usage(rng, int(i), int(sizes[i]), points) for i in rng.integers(0, len(sizes), 2 * len(sizes))]
    on_edges = []
    for number in rng.integers(0, max(len(edges), 1), int(rng.integers(0, 3)))[: len(edges)]:
        start, end = np.sort(rng.integers(0, points + 1, 2))
        size = edges[number].cost.shape
        on_edges.append(EdgeUsage(int(number), int(start), int(end), _bytes(rng, size)))
    has_budget = rng.random() < 0.8 if budget is None else budget
    return make_problem(
        costs,
        edges,
        usages=tuple(usages),
        edge_usages=tuple(on_edges),
        num_points=points,
        budget_bytes=float(rng.integers(30, 200)) if has_budget else None,
        fixed_bytes=_bytes(rng, (points,)) / 2 if rng.random() < 0.5 else None,
    )


def problems(budget: bool | None = None) -> st.SearchStrategy[Problem]:
    """A hypothesis strategy over `random_problem`."""
    return st.integers(0, 10**6).map(lambda seed: random_problem(seed, budget))


def _edges(rng: np.random.Generator, sizes: np.ndarray) -> list[Edge]:
    if len(sizes) < 2:
        return []
    found = []
    for _ in range(int(rng.integers(0, 2 * len(sizes)))):
        i, j = rng.choice(len(sizes), 2, replace=False)
        found.append(Edge(int(i), int(j), _table(rng, (int(sizes[i]), int(sizes[j])), 0.06)))
    return found


def _usage(rng: np.random.Generator, node: int, size: int, points: int) -> Usage:
    start, end = np.sort(rng.integers(0, points + 1, 2))
    return Usage(node, int(start), int(end), _bytes(rng, (size,)))


def _table(rng: np.random.Generator, shape: tuple[int, ...], forbidden: float) -> np.ndarray:
    table = rng.integers(0, 20, shape) * COST_S
    table[rng.random(shape) < forbidden] = np.inf
    return table


def _bytes(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(0, 50, shape).astype(np.float64)
