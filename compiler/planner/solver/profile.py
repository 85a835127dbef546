"""Memory of a choice at every live point, in flat arrays.

mem[t] = fixed[t] + sum_u b_u[x] [start_u <= t < end_u], computed as the running sum of the bytes that start
at t less those that end at t. Whole-number bytes below 2^53 are summed exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .problem import Array, Choice, Problem

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MemoryProfile:
    """All memory terms of a problem, edge terms as well as node terms.

    Term u takes flat[offset[u] + x[first[u]] * stride[u] + x[second[u]]]; a node term has stride 0 and
    first = second.

    Attributes:
        first: Node indexing the rows of each term, shape [terms].
        second: Node indexing the columns, shape [terms].
        stride: Row length of an edge term, 0 for a node term, shape [terms].
        offset: Where each term starts in `flat`, shape [terms].
        flat: All bytes tables, end to end.
        start: First live point, shape [terms].
        end: One past the last live point, shape [terms].
        fixed_bytes: Bytes no strategy changes, shape [points].
    """

    first: Index
    second: Index
    stride: Index
    offset: Index
    flat: Array
    start: Index
    end: Index
    fixed_bytes: Array

    @staticmethod
    def of(problem: Problem) -> MemoryProfile:
        """Flatten the memory terms of a problem."""
        rows = [(u.node, u.node, 0, u.start, u.end) for u in problem.usages]
        for u in problem.edge_usages:
            edge = problem.edges[u.edge]
            rows.append((edge.i, edge.j, u.bytes.shape[1], u.start, u.end))
        tables = [u.bytes.ravel() for u in (*problem.usages, *problem.edge_usages)]
        cols = np.array(rows, np.int64).reshape(-1, 5).T
        offset = np.cumsum([0, *(len(t) for t in tables)])[:-1].astype(np.int64)
        flat = np.concatenate(tables) if tables else np.zeros(0)
        fixed = np.zeros(problem.num_points) if problem.fixed_bytes is None else problem.fixed_bytes
        return MemoryProfile(cols[0], cols[1], cols[2], offset, flat, cols[3], cols[4], fixed)

    def at(self, choice: Choice) -> Array:
        """Return the bytes at each live point under a choice, shape [points]."""
        points = len(self.fixed_bytes)
        value = self.flat[self.offset + choice[self.first] * self.stride + choice[self.second]]
        change = np.bincount(self.start, value, points + 1) - np.bincount(self.end, value, points + 1)
        return np.cumsum(change)[:points] + self.fixed_bytes
