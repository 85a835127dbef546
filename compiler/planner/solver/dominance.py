"""Strategies that need not be considered, because another is at least as good whatever the rest chooses.

Goldstein's criterion: strategy p of node i is dropped where another strategy r costs no more whatever the
neighbours choose, c[p] - c[r] + sum_j min_q (E_ij[p, q] - E_ij[r, q]) >= 0, and weighs no more on any memory
term of the node or its edges. Strategies are dropped one at a time, so two equal ones never drop each other.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from .problem import Array, Problem
from .sharing import incident

Index = NDArray[np.int64]
CUBE_LIMIT = 500_000  # entries of a temporary that compares all pairs of strategies at once


def undominated(problem: Problem) -> list[Index]:
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
