"""Exact shrinking of a problem: every step keeps at least one optimal choice.

1. Parallel edges are added into one.
2. Arc consistency: a strategy whose cost is infinite, or that has no allowed partner on some edge, is
   dropped.
3. Strategies that another dominates are dropped (`dominance.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .dominance import undominated
from .problem import Array, Choice, Edge, EdgeUsage, Problem, Usage
from .sharing import Cut, Shared, incident

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Reduced:
    """A smaller problem on the same nodes.

    Attributes:
        problem: What is left.
        kept: Original number of each strategy left, shapes [k].
    """

    problem: Problem
    kept: tuple[Index, ...]

    def restore(self, choice: Choice) -> Choice:
        """Return the choice in the original numbering."""
        return np.array([k[x] for k, x in zip(self.kept, choice, strict=True)], np.int64)


def preprocess(problem: Problem, use_dominance: bool = True) -> Reduced | None:
    """Shrink a problem, or return None where no choice is allowed at any memory."""
    merged = merge_parallel(problem)
    alive = _arc_consistent(merged)
    if alive is None:
        return None
    reduced = restrict(merged, [np.flatnonzero(a) for a in alive])
    if not use_dominance:
        return reduced
    kept = undominated(reduced.problem)
    second = restrict(reduced.problem, kept)
    return Reduced(second.problem, tuple(k[s] for k, s in zip(reduced.kept, second.kept, strict=True)))


def merge_parallel(problem: Problem) -> Problem:
    """Add edges that join the same two nodes; their memory terms follow.

    Tables of equal values become one array, so that later steps can tell repeated layers by identity.
    """
    number: dict[tuple[int, int], int] = {}
    costs: list[Array] = []
    target: list[tuple[int, bool]] = []
    for edge in problem.edges:
        key, turned = ((edge.i, edge.j), False) if edge.i < edge.j else ((edge.j, edge.i), True)
        cost = edge.cost.T if turned else edge.cost
        place = number.setdefault(key, len(costs))
        if place == len(costs):
            costs.append(cost)
        else:
            costs[place] = costs[place] + cost
        target.append((place, turned))
    shared = Shared()
    edges = tuple(Edge(i, j, shared.table(c)) for (i, j), c in zip(number, costs, strict=True))
    usages = []
    for usage in problem.edge_usages:
        place, turned = target[usage.edge]
        weight = shared.table(usage.bytes.T if turned else usage.bytes)
        usages.append(EdgeUsage(place, usage.start, usage.end, weight))
    return replace(problem, edges=edges, edge_usages=tuple(usages))


def restrict(problem: Problem, kept: list[Index]) -> Reduced:
    """Keep only some strategies of each node; untouched tables are shared, not copied."""
    cut = Cut(problem, kept)
    ends = [(e.i, e.j) for e in problem.edges]
    smaller = replace(
        problem,
        costs=tuple(cut.node(i, c) for i, c in enumerate(problem.costs)),
        edges=tuple(Edge(e.i, e.j, cut.pair(e.i, e.j, e.cost)) for e in problem.edges),
        usages=tuple(Usage(u.node, u.start, u.end, cut.node(u.node, u.bytes)) for u in problem.usages),
        edge_usages=tuple(
            EdgeUsage(u.edge, u.start, u.end, cut.pair(*ends[u.edge], u.bytes)) for u in problem.edge_usages
        ),
    )
    return Reduced(smaller, tuple(kept))


def _arc_consistent(problem: Problem) -> list[NDArray[np.bool_]] | None:
    alive = [np.isfinite(c) for c in problem.costs]
    around = incident(problem)
    allowed = _allowed(problem)
    queue = [i for i, a in enumerate(alive) if not a.all()]
    queue += sorted({i for n in allowed for i in (problem.edges[n].i, problem.edges[n].j)})
    while queue:
        i = queue.pop()
        for number, turned in around[i]:
            if number not in allowed:
                continue
            edge, table = problem.edges[number], allowed[number].T if turned else allowed[number]
            j = edge.i if turned else edge.j
            supported = alive[j] & table[alive[i]].any(axis=0)
            if supported.sum() < alive[j].sum():
                alive[j] = supported
                queue.append(j)
    return alive if all(a.any() for a in alive) else None


def _allowed(problem: Problem) -> dict[int, NDArray[np.bool_]]:
    """Which pairs are allowed, for each edge that forbids any."""
    known: dict[int, NDArray[np.bool_]] = {}
    for edge in problem.edges:
        if id(edge.cost) not in known:
            known[id(edge.cost)] = np.isfinite(edge.cost)
    bans = {key: not table.all() for key, table in known.items()}
    return {n: known[id(e.cost)] for n, e in enumerate(problem.edges) if bans[id(e.cost)]}
