"""Integer programming with memory rows added as they are overrun.

Few live points ever bind, so the program starts with the points given and takes the worst overrun points of
each answer until an answer fits everywhere. Every round relaxes the true problem, so each bound is valid.
Strategies that are the only one of their node are folded into the rows' capacities first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from .backend import Limits
from .elimination import Core, shrink
from .ilp import CoreResult, solve_core
from .problem import Array, Choice, Problem
from .rows import Pair, Row, row_at, tables_of, worst_points

MAX_ROUNDS = 40
MAX_NEW_ROWS = 8
REACH = 0.005  # peaks this close below the budget are made active with those above it


@dataclass(eq=False)
class Exact:
    """What integer programming found.

    Attributes:
        choice: The best feasible choice, or None.
        bound: Seconds (or bytes for the least budget); `inf` where no choice fits.
        rejected: Answers of rounds that overran a point not yet active.
        points: Active live points at the end.
        rounds: Programs solved.
        nodes: Search nodes of all rounds.
        core_nodes: Nodes of the last core.
    """

    choice: Choice | None = None
    bound: float = -np.inf
    rejected: list[Choice] = field(default_factory=list)
    points: list[int] = field(default_factory=list)
    rounds: int = 0
    nodes: int = 0
    core_nodes: int = 0


def solve_exact(
    problem: Problem, points: list[int], limits: Limits, reference: float, max_rounds: int = MAX_ROUNDS
) -> Exact:
    """Minimise cost under the budget.

    Args:
        problem: Without parallel edges.
        points: Live points to start with.
        limits: For all rounds together (nodes, deadline) and for each (the rest).
        reference: A cost of the order of the optimum, in seconds.
        max_rounds: Most programs; where they run out there may be no choice, but there is a bound.
    """
    found = Exact(points=list(points))
    budget = np.inf if problem.budget_bytes is None else problem.budget_bytes
    margin: dict[int, float] = {}
    while found.rounds < max_rounds and not limits.deadline.is_over():
        result = _round(problem, found, margin, budget, _left(limits, found), reference)
        found.bound = max(found.bound, result.bound)
        if result.choice is None:
            return found
        memory = problem.memory(result.choice)
        if memory.max(initial=0.0) <= budget:
            found.choice = result.choice
            return found
        found.rejected.append(result.choice)
        _activate(found, margin, memory, budget)
    return found


def _left(limits: Limits, found: Exact) -> Limits:
    """What the rounds so far leave of the node limit."""
    if limits.max_nodes is None:
        return limits
    return replace(limits, max_nodes=max(limits.max_nodes - found.nodes, 1))


def _activate(found: Exact, margin: dict[int, float], memory: Array, budget: float) -> None:
    """Add the worst points; of one that is active already (overrun within tolerance), ask for less."""
    for point in worst_points(memory, budget, MAX_NEW_ROWS, REACH):
        if point not in found.points:
            found.points.append(point)
        elif memory[point] > budget:
            margin[point] = margin.get(point, 0.0) + 2.0 * float(memory[point] - budget)


def least_exact(
    problem: Problem,
    points: list[int],
    limits: Limits,
    unit_bytes: float,
    known: Choice | None = None,
    max_rounds: int = MAX_ROUNDS,
) -> Exact:
    """Minimise the largest memory of any live point, by the same program with an overrun variable.

    Args:
        problem: Without parallel edges.
        points: Live points to start with.
        limits: For all rounds together (nodes, deadline) and for each (the rest).
        unit_bytes: Bytes of the order of the answer.
        known: A choice of small memory; where it is the leanest, the first bound can tell.
        max_rounds: Most programs.

    Returns:
        The leanest choice met, `known` included, whose peak is attained; `bound` is in bytes.
    """
    found = Exact(known, points=list(points))
    best = np.inf if known is None else problem.peak_bytes(known)
    while found.rounds < max_rounds and not limits.deadline.is_over():
        result = _round(problem, found, {}, 0.0, _left(limits, found), 1.0, unit_bytes)
        found.bound = max(found.bound, result.bound * unit_bytes)
        if result.choice is None:
            return found
        memory = problem.memory(result.choice)
        if memory.max(initial=0.0) < best:
            best, found.choice = float(memory.max(initial=0.0)), result.choice
        worst = int(memory.argmax())
        if worst in found.points or best - found.bound <= limits.relative_gap * abs(best):
            return found
        found.points.append(worst)
    return found


def _round(
    problem: Problem,
    found: Exact,
    margin: dict[int, float],
    budget: float,
    limits: Limits,
    reference: float,
    unit_bytes: float | None = None,
) -> CoreResult:
    """Solve one program over the active points; the elastic one where `unit_bytes` is given."""
    elastic = unit_bytes is not None
    unit = unit_bytes or max(abs(budget), 1e-30)
    raw = [row_at(problem, t, budget - margin.get(t, 0.0), unit) for t in found.points]
    rows = [_folded(r, problem) for r in raw]
    frozen = {i for r in rows for i in r.node} | {i for r in rows for pair in r.pair for i in pair}
    unary = [np.zeros(len(c)) for c in problem.costs] if elastic else list(problem.costs)
    pairs = tables_of(problem)
    if elastic:
        pairs = {k: np.where(np.isfinite(t), 0.0, np.inf) for k, t in pairs.items()}
    core = shrink(unary, pairs, frozen)
    result = _solve(core, rows, limits, reference, elastic)
    found.rounds += 1
    found.nodes += result.nodes
    found.core_nodes = len(core.nodes)
    if result.choice is None:
        return result
    return CoreResult(
        core.complete(result.choice), result.bound, [], result.prices, result.iterations, result.nodes
    )


def _solve(core: Core, rows: list[Row], limits: Limits, reference: float, elastic: bool) -> CoreResult:
    if core.nodes or elastic:
        return solve_core(core, rows, limits, reference, elastic=elastic)
    fits = all(r.capacity >= 0 for r in rows)
    choice = np.zeros(len(core.unary), np.int64) if fits else None
    return CoreResult(choice, core.constant if fits else np.inf, [], np.zeros(len(rows)), 0, 0)


def _folded(row: Row, problem: Problem) -> Row:
    """Move the weight of what is already decided into the capacity."""
    node: dict[int, Array] = {}
    pair: dict[Pair, Array] = {}
    capacity = row.capacity
    single = problem.sizes == 1
    for i, weight in row.node.items():
        _add(node, i, weight)
    for (i, j), weight in row.pair.items():
        if single[i]:
            _add(node, j, weight[0])
        elif single[j]:
            _add(node, i, weight[:, 0])
        else:
            pair[i, j] = weight
    for i in [i for i in node if single[i]]:
        capacity -= float(node.pop(i)[0])
    return Row(row.point, node, pair, capacity)


def _add(node: dict[int, Array], i: int, weight: Array) -> None:
    node[i] = node[i] + weight if i in node else weight
