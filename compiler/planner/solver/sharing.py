"""Repeated layers keep their tables in common: equal arrays become one, and stay one when they are cut."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from .problem import Array, Problem

Index = NDArray[np.int64]


class Shared:
    """Maps tables of equal values to one array."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Array] = {}
        # By id; each array is kept with its first equal, so that no id is used twice.
        self._seen: dict[int, tuple[Array, Array]] = {}

    def table(self, table: Array) -> Array:
        """Return the first array met that equals this one."""
        if id(table) not in self._seen:
            first = self._known.setdefault((table.shape, table.tobytes()), table)
            self._seen[id(table)] = (table, first)
        return self._seen[id(table)][1]


class Cut:
    """Tables over the strategies kept; what was one array stays one."""

    def __init__(self, problem: Problem, kept: Sequence[Index]) -> None:
        self._kept = kept
        # None marks a node that keeps all its strategies.
        self._mark = [None if len(k) == n else k.tobytes() for k, n in zip(kept, problem.sizes, strict=True)]
        self._known: dict[Hashable, Array] = {}

    def node(self, i: int, table: Array) -> Array:
        """Return a table of one node, shape [k], over the strategies kept."""
        return table if self._mark[i] is None else table[self._kept[i]]

    def pair(self, i: int, j: int, table: Array) -> Array:
        """Return a table of two nodes, shape [k_i, k_j], over the strategies kept."""
        if self._mark[i] is None and self._mark[j] is None:
            return table
        key = (id(table), self._mark[i], self._mark[j])
        if key not in self._known:
            self._known[key] = table[self._kept[i]][:, self._kept[j]]
        return self._known[key]


def incident(problem: Problem) -> list[list[tuple[int, bool]]]:
    """Return for each node its edges as (number, whether the node is the edge's `j`)."""
    around: list[list[tuple[int, bool]]] = [[] for _ in range(problem.num_nodes)]
    for number, edge in enumerate(problem.edges):
        around[edge.i].append((number, False))
        around[edge.j].append((number, True))
    return around
