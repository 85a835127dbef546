"""The planner's problem: one strategy per node, pairwise costs, memory at every live point.

    minimise    sum_i c_i[x_i] + sum_(i,j) E_ij[x_i, x_j]
    subject to  fixed[t] + sum_{u: start_u <= t < end_u} b_u[x] <= budget   for every live point t

Costs are seconds and memory is bytes, both float64; `np.inf` forbids a strategy or a pair. Several edges
may join the same two nodes (their costs add). Every object is immutable; solvers work on copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .profile import MemoryProfile

Array = NDArray[np.float64]
Choice = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Edge:
    """Pairwise cost of two nodes.

    Attributes:
        i: First node.
        j: Second node, different from `i`.
        cost: Seconds, shape [k_i, k_j]; `np.inf` forbids the pair.
    """

    i: int
    j: int
    cost: Array


@dataclass(frozen=True, eq=False)
class Usage:
    """Memory of one node, live at points start <= t < end.

    Attributes:
        node: The node.
        start: First live point.
        end: One past the last live point.
        bytes: Bytes under each strategy, shape [k].
    """

    node: int
    start: int
    end: int
    bytes: Array


@dataclass(frozen=True, eq=False)
class EdgeUsage:
    """Memory of one edge (a resharded copy), live at points start <= t < end.

    Attributes:
        edge: Index into `Problem.edges`.
        start: First live point.
        end: One past the last live point.
        bytes: Bytes under each pair of strategies, shape [k_i, k_j].
    """

    edge: int
    start: int
    end: int
    bytes: Array


@dataclass(frozen=True, eq=False)
class Problem:
    """One strategy per node at least cost under a memory budget.

    Attributes:
        names: Node names, for messages.
        costs: Seconds of each strategy of each node, shapes [k_i].
        edges: Pairwise costs.
        usages: Memory of nodes.
        edge_usages: Memory of edges.
        num_points: Number of live points.
        budget_bytes: Most bytes at any live point, or None for no limit.
        fixed_bytes: Bytes at each point that no strategy changes, shape [num_points], or None.
    """

    names: tuple[str, ...]
    costs: tuple[Array, ...]
    edges: tuple[Edge, ...] = ()
    usages: tuple[Usage, ...] = ()
    edge_usages: tuple[EdgeUsage, ...] = ()
    num_points: int = 0
    budget_bytes: float | None = None
    fixed_bytes: Array | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.costs)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of strategies of each node, shape [num_nodes]."""
        return np.array([len(c) for c in self.costs], np.int64)

    @cached_property
    def profile(self) -> MemoryProfile:
        """The memory terms in flat form."""
        return MemoryProfile.of(self)

    def objective(self, choice: ArrayLike) -> float:
        """Return the cost in seconds of one choice, shape [num_nodes]; `inf` where it is forbidden."""
        x = np.asarray(choice, np.int64)
        total = sum(float(c[x[i]]) for i, c in enumerate(self.costs))
        return total + sum(float(e.cost[x[e.i], x[e.j]]) for e in self.edges)

    def memory(self, choice: ArrayLike) -> Array:
        """Return the bytes at each live point under one choice, shape [num_points]."""
        return self.profile.at(np.asarray(choice, np.int64))

    def peak_bytes(self, choice: ArrayLike) -> float:
        """Return the largest bytes at any live point (0 where there are no points)."""
        return float(self.memory(choice).max(initial=0.0))

    def is_feasible(self, choice: ArrayLike) -> bool:
        """Say whether a choice is allowed and within the budget."""
        fits = self.budget_bytes is None or self.peak_bytes(choice) <= self.budget_bytes
        return fits and np.isfinite(self.objective(choice))

    def validate(self) -> None:
        """Check shapes, indices and values.

        Raises:
            ValueError: Naming every problem found.
        """
        from .validation import problems_of

        found = problems_of(self)
        if found:
            raise ValueError("malformed planning problem:\n  " + "\n  ".join(found))


def make_problem(costs: Sequence[ArrayLike], edges: Sequence[Edge] = (), **fields: object) -> Problem:
    """Build a `Problem` from plain sequences, naming the nodes `n0, n1, ...` unless names are given."""
    arrays = tuple(np.asarray(c, np.float64) for c in costs)
    names = fields.pop("names", None) or tuple(f"n{i}" for i in range(len(arrays)))
    return Problem(names, arrays, tuple(edges), **fields)  # type: ignore[arg-type]
