"""Exact shrinking of a problem: every step keeps at least one optimal choice.

1. Parallel edges are added into one.
2. Arc consistency: a strategy whose cost is infinite, or that has no allowed partner on some edge, is
   dropped.
3. Dominance (Goldstein's criterion): strategy p of node i is dropped where another strategy r costs no more
   whatever the neighbours choose, c[p] - c[r] + sum_j min_q (E_ij[p, q] - E_ij[r, q]) >= 0, and weighs no
   more on any memory term of the node or its edges. Strategies are dropped one at a time, so two equal ones
   never drop each other.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .problem import Array, Choice, Edge, EdgeUsage, Problem

Index = NDArray[np.int64]
CUBE_LIMIT = 500_000  # entries of a temporary that compares all pairs of strategies at once


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
    kept = _undominated(reduced.problem)
    second = restrict(reduced.problem, kept)
    return Reduced(second.problem, tuple(k[s] for k, s in zip(reduced.kept, second.kept, strict=True)))


def merge_parallel(problem: Problem) -> Problem:
    """Add edges that join the same two nodes; their memory terms follow."""
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
    edges = tuple(Edge(i, j, c) for (i, j), c in zip(number, costs, strict=True))
    usages = []
    for usage in problem.edge_usages:
        place, turned = target[usage.edge]
        usages.append(EdgeUsage(place, usage.start, usage.end, usage.bytes.T if turned else usage.bytes))
    return replace(problem, edges=edges, edge_usages=tuple(usages))


def restrict(problem: Problem, kept: list[Index]) -> Reduced:
    """Keep only some strategies of each node; untouched tables are shared, not copied."""
    whole = [len(k) == n for k, n in zip(kept, problem.sizes, strict=True)]

    def node(i: int, table: Array) -> Array:
        return table if whole[i] else table[kept[i]]

    def pair(e: Edge, table: Array) -> Array:
        return table if whole[e.i] and whole[e.j] else table[np.ix_(kept[e.i], kept[e.j])]

    smaller = replace(
        problem,
        costs=tuple(node(i, c) for i, c in enumerate(problem.costs)),
        edges=tuple(Edge(e.i, e.j, pair(e, e.cost)) for e in problem.edges),
        usages=tuple(replace(u, bytes=node(u.node, u.bytes)) for u in problem.usages),
        edge_usages=tuple(
            replace(u, bytes=pair(problem.edges[u.edge], u.bytes)) for u in problem.edge_usages
        ),
    )
    return Reduced(smaller, tuple(kept))


def incident(problem: Problem) -> list[list[tuple[int, bool]]]:
    """Return for each node its edges as (number, whether the node is the edge's `j`)."""
    around: list[list[tuple[int, bool]]] = [[] for _ in range(problem.num_nodes)]
    for number, edge in enumerate(problem.edges):
        around[edge.i].append((number, False))
        around[edge.j].append((number, True))
    return around


def _arc_consistent(problem: Problem) -> list[NDArray[np.bool_]] | None:
    alive = [np.isfinite(c) for c in problem.costs]
    around = incident(problem)
    allowed = {n: np.isfinite(e.cost) for n, e in enumerate(problem.edges) if not np.isfinite(e.cost).all()}
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


def _undominated(problem: Problem) -> list[Index]:
    """Drop dominated strategies of each node in turn, against the neighbours' strategies still left.

    Repeated layers share their tables, so nodes that see the same ones are judged once.
    """
    around = incident(problem)
    weights: list[list[Array]] = [[] for _ in range(problem.num_nodes)]
    for usage in problem.usages:
        weights[usage.node].append(usage.bytes)
    on_edge: dict[int, list[Array]] = {}
    for usage in problem.edge_usages:
        on_edge.setdefault(usage.edge, []).append(usage.bytes)
    kept = [np.arange(k) for k in problem.sizes]
    known: dict[Hashable, Index] = {}
    for i in map(int, np.argsort(problem.sizes, kind="stable")):
        if len(kept[i]) > 1:
            sight = _sight(problem, i, kept, around[i], weights[i], on_edge)
            if sight not in known:
                known[sight] = _survivors(problem, i, kept, around[i], weights[i], on_edge)
            kept[i] = known[sight]
    return kept


def _sight(
    problem: Problem,
    i: int,
    kept: list[Index],
    around: list[tuple[int, bool]],
    weights: list[Array],
    on_edge: dict[int, list[Array]],
) -> Hashable:
    """Return all that decides which strategies of a node survive; shared tables by identity."""
    edges = []
    for number, turned in around:
        edge = problem.edges[number]
        other = kept[edge.i if turned else edge.j].tobytes()
        edges.append((id(edge.cost), turned, other, *map(id, on_edge.get(number, ()))))
    held = tuple(w.tobytes() for w in weights)
    return (problem.costs[i].tobytes(), kept[i].tobytes(), held, tuple(edges))


def _survivors(
    problem: Problem,
    i: int,
    kept: list[Index],
    around: list[tuple[int, bool]],
    weights: list[Array],
    on_edge: dict[int, list[Array]],
) -> Index:
    """Return the strategies of one node that no other dominates."""
    mine = kept[i]
    cost = problem.costs[i][mine]
    surplus = cost[:, None] - cost[None, :]  # [p, r]: how much dearer p is than r, at least
    for weight in weights:
        w = weight[mine]
        surplus[w[:, None] < w[None, :]] = -np.inf
    for number, turned in around:
        edge = problem.edges[number]
        at = np.ix_(mine, kept[edge.i if turned else edge.j])
        with np.errstate(
            invalid="ignore"
        ):  # a strategy without partners: inf - inf is NaN, which drops nothing
            surplus += _least_difference((edge.cost.T if turned else edge.cost)[at])
        for table in on_edge.get(number, ()):
            w = (table.T if turned else table)[at]
            surplus[_least_difference(w) < 0] = -np.inf
        if not (surplus >= 0).sum() > len(mine):
            return mine
    return mine[_drop_in_turn(surplus >= 0)]


def _least_difference(table: Array) -> Array:
    """Return min_q table[p, q] - table[r, q], shape [k, k]; a partner forbidden to p does not count."""
    if table.size * len(table) <= CUBE_LIMIT and np.isfinite(table).all():
        return (table[:, None, :] - table[None, :, :]).min(axis=2)
    out = np.empty((len(table), len(table)))
    with np.errstate(invalid="ignore"):
        for p, line in enumerate(table):
            difference = line[None, :] - table
            difference[:, ~np.isfinite(line)] = np.inf
            out[p] = difference.min(axis=1, initial=np.inf)
    return out


def _drop_in_turn(dominates: NDArray[np.bool_]) -> Index:
    """Drop p while some r still there has dominates[p, r]."""
    left = np.ones(len(dominates), bool)
    np.fill_diagonal(dominates, False)
    for p in range(len(dominates) - 1, -1, -1):
        if (dominates[p] & left).any():
            left[p] = False
    return np.flatnonzero(left)
