"""Exact elimination of nodes of degree at most two, for the integer program.

A node without a memory term in the active rows is minimised out: its costs, seen from its neighbours, become
m(j, k) = min_v (c[v] + E_vj[v, j] + E_vk[v, k]), a constant, a node cost or one more edge. A node with one
strategy is folded into all its neighbours. The removed tables are kept, and reading them backwards
completes any choice of the rest at exactly the cost the reduced problem gave it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .problem import Array, Choice


@dataclass(frozen=True, eq=False)
class Removed:
    """One removed node: its table over itself and its neighbours, in that axis order."""

    node: int
    neighbours: tuple[int, ...]
    table: Array


@dataclass(frozen=True, eq=False)
class Core:
    """What elimination leaves.

    Attributes:
        nodes: Nodes left, ascending.
        unary: Cost of every node, by node number (removed nodes keep a stale entry).
        pairs: Tables of the pairs left, keys (i, j) with i < j, shapes [k_i, k_j].
        constant: Cost already decided, in seconds.
        stack: Removed nodes in order.
    """

    nodes: tuple[int, ...]
    unary: list[Array]
    pairs: dict[tuple[int, int], Array]
    constant: float
    stack: list[Removed]

    def complete(self, choice: Choice) -> Choice:
        """Fill in the removed nodes of a choice over all nodes (their entries are ignored)."""
        x = choice.copy()
        for item in reversed(self.stack):
            x[item.node] = int(item.table[(slice(None), *x[list(item.neighbours)])].argmin())
        return x


def shrink(
    unary: Sequence[Array],
    pairs: dict[tuple[int, int], Array],
    frozen: set[int],
    entry_limit: int = 1_000_000,
) -> Core:
    """Remove every unfrozen node of degree at most two, over and over.

    Args:
        unary: Node costs, shapes [k].
        pairs: Pair costs, keys (i, j) with i < j.
        frozen: Nodes that must stay (they carry memory).
        entry_limit: Most entries of a three-node table; a node that needs more stays.
    """
    near: list[dict[int, Array]] = [{} for _ in unary]
    for (i, j), table in pairs.items():
        near[i][j], near[j][i] = table, table.T
    state = _State(list(unary), near, 0.0, [])
    gone: set[int] = set()
    queue = [v for v in range(len(unary) - 1, -1, -1) if v not in frozen]
    while queue:
        v = queue.pop()
        if v in gone or v in frozen or not state.is_removable(v, entry_limit):
            continue
        around = list(near[v])
        state.remove(v)
        gone.add(v)
        queue.extend(around)
    left = tuple(v for v in range(len(unary)) if v not in gone)
    rest = {(i, j): near[i][j] for i in left for j in sorted(near[i]) if i < j}
    return Core(left, state.unary, rest, state.constant, state.stack)


@dataclass
class _State:
    unary: list[Array]
    near: list[dict[int, Array]]
    constant: float
    stack: list[Removed]

    def is_removable(self, v: int, entry_limit: int) -> bool:
        degree, k = len(self.near[v]), len(self.unary[v])
        if degree <= 1 or k == 1:
            return True
        if degree > 2:
            return False
        i, j = self.near[v]
        return k * len(self.unary[i]) * len(self.unary[j]) <= entry_limit

    def remove(self, v: int) -> None:
        around = tuple(self.near[v])
        if len(self.unary[v]) == 1:
            self._fold(v, around)
        elif not around:
            self._record(v, around, self.unary[v])
            self.constant += float(self.unary[v].min())
        elif len(around) == 1:
            table = self.unary[v][:, None] + self.near[v][around[0]]
            self._record(v, around, table)
            self.unary[around[0]] = self.unary[around[0]] + table.min(axis=0)
        else:
            self._join(v, *around)
        for u in around:
            del self.near[u][v]
        self.near[v] = {}

    def _fold(self, v: int, around: tuple[int, ...]) -> None:
        for u in around:
            self.unary[u] = self.unary[u] + self.near[v][u][0]
        self.constant += float(self.unary[v][0])
        self._record(v, (), self.unary[v])

    def _join(self, v: int, i: int, j: int) -> None:
        left = self.unary[v][:, None] + self.near[v][i]
        table = left[:, :, None] + self.near[v][j][:, None, :]
        self._record(v, (i, j), table)
        message = table.min(axis=0)
        joined = self.near[i][j] + message if j in self.near[i] else message
        self.near[i][j], self.near[j][i] = joined, joined.T

    def _record(self, v: int, around: tuple[int, ...], table: Array) -> None:
        self.stack.append(Removed(v, around, table))
