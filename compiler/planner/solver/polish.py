"""Local search that keeps a choice within the budget while its cost falls.

Three kinds of move, each accepted only where it lowers the cost and fits at every live point: one node to
another strategy; the two nodes of an edge together; and one connected part of the difference to another
known choice (so a repeated block, or some copies of it, can follow a leaner or a faster solution). Order is
fixed, so the result is reproducible.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .deadline import NEVER, Deadline
from .problem import Array, Choice, Problem
from .sharing import incident

MAX_TRIES = 6  # candidate strategies checked for memory, best first


class Polisher:
    """Local search on one problem (no parallel edges); reusable for several starts.

    No sweep begins after the deadline.
    """

    def __init__(self, problem: Problem, deadline: Deadline = NEVER) -> None:
        self.problem = problem
        self.deadline = deadline
        self.budget = np.inf if problem.budget_bytes is None else problem.budget_bytes
        self.around: list[list[tuple[int, Array]]] = [[] for _ in problem.costs]
        for i, edges in enumerate(incident(problem)):
            for number, turned in edges:
                edge = problem.edges[number]
                self.around[i].append((edge.i, edge.cost.T) if turned else (edge.j, edge.cost))
        self.usages: list[list[tuple[int, int, Array]]] = [[] for _ in problem.costs]
        for usage in problem.usages:
            self.usages[usage.node].append((usage.start, usage.end, usage.bytes))
        self.edge_usages: list[list[int]] = [[] for _ in problem.costs]
        for number, usage in enumerate(problem.edge_usages):
            self.edge_usages[problem.edges[usage.edge].i].append(number)
            self.edge_usages[problem.edges[usage.edge].j].append(number)

    def improve(
        self, choice: Choice, others: Sequence[Choice] = (), sweeps: int = 8, pairs: bool = True
    ) -> Choice:
        """Return a choice that costs no more, feasible where the given one is.

        Args:
            choice: Where to start, shape [num_nodes].
            others: Choices to borrow connected parts from.
            sweeps: Most passes over nodes and edges.
            pairs: Try two-node moves as well.
        """
        x = choice.copy()
        head = self.budget - self.problem.memory(x)
        for other in others:
            self._relink(x, head, other)
        for _ in range(sweeps):
            if self.deadline.is_over():
                break
            moved = sum(self._move_node(x, head, i) for i in range(len(x)))
            if pairs:
                moved += sum(self._move_pair(x, head, e.i, e.j, e.cost) for e in self.problem.edges)
            if not moved:
                break
        return x if self.problem.is_feasible(x) or not self.problem.is_feasible(choice) else choice

    def _costs(self, x: Choice, i: int, skip: int = -1) -> Array:
        """Cost of each strategy of node i with the rest held, shape [k]."""
        total = self.problem.costs[i]
        for j, table in self.around[i]:
            if j != skip:
                total = total + table[:, x[j]]
        return total

    def _move_node(self, x: Choice, head: Array, i: int) -> bool:
        if len(self.problem.costs[i]) == 1:
            return False
        cost = self._costs(x, i)
        now = cost[x[i]]
        if not cost.min() < now - 1e-12 * abs(now):
            return False
        order = np.argsort(cost, kind="stable")[:MAX_TRIES]
        return any(self._try(x, head, {i: int(p)}) for p in order if cost[p] < now - 1e-12 * abs(now))

    def _move_pair(self, x: Choice, head: Array, i: int, j: int, table: Array) -> bool:
        if min(table.shape) == 1:
            return False
        cost = self._costs(x, i, j)[:, None] + self._costs(x, j, i)[None, :] + table
        now = cost[x[i], x[j]]
        flat = cost.ravel()
        better = np.flatnonzero(flat < now - 1e-12 * abs(now))
        order = better[np.argsort(flat[better], kind="stable")][:MAX_TRIES]
        return any(
            self._try(x, head, {i: int(c) // table.shape[1], j: int(c) % table.shape[1]}) for c in order
        )

    def _relink(self, x: Choice, head: Array, other: Choice) -> None:
        """Take over connected parts of another choice, the most profitable first."""
        parts = self._parts(np.flatnonzero(x != other))
        moves = [{i: int(other[i]) for i in part} for part in parts]
        gains = [self._gain(x, m) for m in moves]
        for n in np.argsort(gains, kind="stable"):
            if self._gain(x, moves[n]) < 0:
                self._try(x, head, moves[n])

    def _parts(self, nodes: NDArray[np.intp]) -> list[list[int]]:
        left = dict.fromkeys(int(i) for i in nodes)
        parts = []
        while left:
            part = [next(iter(left))]
            del left[part[0]]
            for i in part:
                for j, _ in self.around[i]:
                    if j in left:
                        del left[j]
                        part.append(j)
            parts.append(part)
        return parts

    def _gain(self, x: Choice, move: dict[int, int]) -> float:
        """Change of cost in seconds under a move of several nodes."""
        total = 0.0
        for i, p in move.items():
            total += self.problem.costs[i][p] - self.problem.costs[i][x[i]]
            for j, table in self.around[i]:
                if j not in move:
                    total += table[p, x[j]] - table[x[i], x[j]]
                elif i < j:
                    total += table[p, move[j]] - table[x[i], x[j]]
        return float(total)

    def _try(self, x: Choice, head: Array, move: dict[int, int]) -> bool:
        """Make a move where it fits; `x` and the headroom are changed in place."""
        changes = self._changes(x, move)
        if changes:
            low, high = min(c[0] for c in changes), max(c[1] for c in changes)
            rise = np.zeros(high - low)
            for start, end, extra in changes:
                rise[start - low : end - low] += extra
            left = head[low:high] - rise
            if ((left < 0) & (rise > 0)).any():
                return False
            head[low:high] = left
        for i, p in move.items():
            x[i] = p
        return True

    def _changes(self, x: Choice, move: dict[int, int]) -> list[tuple[int, int, float]]:
        """Memory that a move adds: (start, end, bytes)."""
        found = []
        seen: dict[int, None] = {}
        for i, p in move.items():
            found += [(s, e, float(b[p] - b[x[i]])) for s, e, b in self.usages[i] if e > s]
            seen.update(dict.fromkeys(self.edge_usages[i]))
        for number in seen:
            usage = self.problem.edge_usages[number]
            edge = self.problem.edges[usage.edge]
            after = usage.bytes[move.get(edge.i, x[edge.i]), move.get(edge.j, x[edge.j])]
            if usage.end > usage.start:
                found.append((usage.start, usage.end, float(after - usage.bytes[x[edge.i], x[edge.j]])))
        return [c for c in found if c[2] != 0.0]
