"""Repeated blocks tied together: one decision for all copies.

Colour refinement (the one-dimensional Weisfeiler-Leman algorithm) groups nodes that look alike: same costs,
same memory tables, and neighbours of the same colours over the same edge tables, for a few rounds. Nodes of
one class then share one
strategy: costs and memory of a class add up, edges between two classes add up, an edge inside a class
    becomes a node cost. Any partition of nodes with equal strategy counts is a restriction, so the tied
    optimum is an upper bound.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .problem import Array, Choice, Edge, EdgeUsage, Problem, Usage
from .sharing import incident

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Folded:
    """A quotient problem.

    Attributes:
        problem: One node a class.
        member_of: Class of each original node, shape [num_nodes].
    """

    problem: Problem
    member_of: Index

    def unfold(self, choice: Choice) -> Choice:
        """Return the choice over the original nodes, shape [num_nodes]."""
        return choice[self.member_of]


def refine(problem: Problem, rounds: int = 3) -> Index:
    """Return a class number for each node by colour refinement, numbered by first appearance.

    Args:
        problem: Without parallel edges.
        rounds: How far to look: more rounds give finer classes (ends of a chain differ from its middle).
    """
    around = incident(problem)
    tables: dict[int, bytes] = {}
    weights: list[list[tuple[int, bytes]]] = [[] for _ in problem.costs]
    for usage in problem.usages:
        weights[usage.node].append(
            (usage.end - usage.start == problem.num_points, _digest(tables, usage.bytes))
        )
    colour = [
        _hash(_digest(tables, c), *[bytes([whole]) + d for whole, d in sorted(w)])
        for c, w in zip(problem.costs, weights, strict=True)
    ]
    ends = [_digest(tables, e.cost) for e in problem.edges]
    for _ in range(rounds):
        colour = [
            _hash(
                colour[i],
                *sorted(bytes([turned]) + ends[n] + colour[_other(problem, n, i)] for n, turned in edges),
            )
            for i, edges in enumerate(around)
        ]
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(c, len(numbers)) for c in colour], np.int64)


def fold(problem: Problem, member_of: Sequence[int] | Index) -> Folded:
    """Tie the nodes of each class.

    Args:
        problem: What to fold.
        member_of: Class of each node; any hashable-free integers will do.

    Raises:
        ValueError: Where a class joins nodes with different numbers of strategies.
    """
    labels, first, member = np.unique(np.asarray(member_of), return_index=True, return_inverse=True)
    if (problem.sizes != problem.sizes[first][member]).any():
        raise ValueError("a class ties nodes with different numbers of strategies")
    costs = [np.zeros(problem.sizes[i]) for i in first]
    for i, cost in enumerate(problem.costs):
        costs[member[i]] = costs[member[i]] + cost
    edges, place = _fold_edges(problem, member, costs)
    usages = [Usage(int(member[u.node]), u.start, u.end, u.bytes) for u in problem.usages]
    on_edges = []
    for usage in problem.edge_usages:
        edge = problem.edges[usage.edge]
        a, b = int(member[edge.i]), int(member[edge.j])
        if a == b:
            usages.append(Usage(a, usage.start, usage.end, np.diagonal(usage.bytes).copy()))
        else:
            table = usage.bytes if a < b else usage.bytes.T
            on_edges.append(EdgeUsage(place[min(a, b), max(a, b)], usage.start, usage.end, table))
    quotient = replace(
        problem,
        names=tuple(problem.names[i] for i in first),
        costs=tuple(costs),
        edges=edges,
        usages=tuple(usages),
        edge_usages=tuple(on_edges),
    )
    return Folded(quotient, member.astype(np.int64))


def _fold_edges(
    problem: Problem, member: Index, costs: list[Array]
) -> tuple[tuple[Edge, ...], dict[tuple[int, int], int]]:
    """Add edges between the same classes; edges inside a class go to its costs (changed in place)."""
    tables: dict[tuple[int, int], Array] = {}
    for edge in problem.edges:
        a, b = int(member[edge.i]), int(member[edge.j])
        if a == b:
            costs[a] = costs[a] + np.diagonal(edge.cost)
            continue
        key, table = ((a, b), edge.cost) if a < b else ((b, a), edge.cost.T)
        tables[key] = tables[key] + table if key in tables else table
    edges = tuple(Edge(a, b, t) for (a, b), t in tables.items())
    return edges, {key: n for n, key in enumerate(tables)}


def _other(problem: Problem, number: int, node: int) -> int:
    edge = problem.edges[number]
    return edge.j if edge.i == node else edge.i


def _digest(known: dict[int, bytes], table: Array) -> bytes:
    """Hash a table's shape and values; tables shared between nodes are hashed once."""
    if id(table) not in known:
        known[id(table)] = _hash(str(table.shape).encode(), np.ascontiguousarray(table).tobytes())
    return known[id(table)]


def _hash(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.digest()
