"""The least cost without memory rows, or a lower bound on it: whole tables where they fit, else split ones.

Split tables are not used on the problem as it is. Nodes of degree two are eliminated exactly first, messages
then spread the costs over what is left (`diffusion.py`), and only then are tables of moderate size split:
this bounds better than far larger tables without the messages, in less time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from .bucket_plan import BucketPlan, plan_buckets, plan_whole
from .buckets import Elimination, eliminate
from .diffusion import Diffusion
from .elimination import Core, shrink
from .marginals import core_marginals, min_marginals
from .problem import Array, Choice, Problem
from .rows import Pair, tables_of

WHOLE_ENTRIES = 400_000_000  # entries of all tables that are not split, about 5 ns each
SPLIT_TABLE = 800_000  # entries of one split table, less where all together would pass the next limit
SPLIT_ENTRIES = 45_000_000
CORE_TABLE = 200_000  # entries of a table that is eliminated before the messages
FIRST_SWEEPS, SWEEPS = 4, 3  # of messages before the first elimination and before each later one


class Relaxed(ABC):
    """One evaluation.

    Attributes:
        value: The minimum (exact relaxation) or a lower bound on it.
    """

    value: float

    @abstractmethod
    def choice(self) -> Choice:
        """Return a choice: a minimiser where the relaxation is exact."""

    @abstractmethod
    def marginals(self) -> list[Array]:
        """Return, for each node, a lower bound on the total cost under each strategy, shapes [k]."""


class Relaxation(ABC):
    """What bounds all costs on one graph.

    Attributes:
        is_exact: Whether the value is the minimum.
        entries: Entries of all tables.
    """

    is_exact: bool
    entries: int

    @abstractmethod
    def run(self, unary: Sequence[Array], pairs: dict[Pair, Array]) -> Relaxed:
        """Evaluate node costs, shapes [k], and pair costs, shapes [k_i, k_j]."""

    @abstractmethod
    def fresh(self) -> Relaxation:
        """Return one over the same graph that remembers no costs."""


def relax(problem: Problem, table_limit: int) -> Relaxation:
    """Choose the relaxation of a problem without parallel edges.

    Args:
        problem: What to bound.
        table_limit: Most entries of one table.
    """
    plan = plan_whole(problem.sizes, [(e.i, e.j) for e in problem.edges], table_limit, WHOLE_ENTRIES)
    return Split.of(problem, table_limit) if plan is None else Whole(plan)


class Whole(Relaxation):
    """Bucket elimination with no table split."""

    is_exact = True

    def __init__(self, plan: BucketPlan) -> None:
        self.plan = plan
        self.entries = plan.entries

    def run(self, unary: Sequence[Array], pairs: dict[Pair, Array]) -> Relaxed:
        """Eliminate all nodes."""
        return _WholeRun(eliminate(self.plan, unary, list(pairs.values())))

    def fresh(self) -> Relaxation:
        """Return itself: nothing is remembered."""
        return self


class _WholeRun(Relaxed):
    def __init__(self, run: Elimination) -> None:
        self.value = run.value
        self._run = run

    def choice(self) -> Choice:
        return self._run.choice()

    def marginals(self) -> list[Array]:
        return min_marginals(self._run)


class Split(Relaxation):
    """Exact elimination of low degrees, messages, then split tables."""

    is_exact = False

    def __init__(self, plan: BucketPlan, diffusion: Diffusion) -> None:
        self.plan = plan
        self.entries = plan.entries
        self.diffusion = diffusion
        self._sweeps = FIRST_SWEEPS

    @staticmethod
    def of(problem: Problem, table_limit: int) -> Split:
        """Lay out the relaxation of a problem."""
        core = shrink(problem.costs, tables_of(problem), set(), CORE_TABLE)
        place = {v: n for n, v in enumerate(core.nodes)}
        pairs = [(place[i], place[j]) for i, j in core.pairs]
        sizes = np.array([problem.sizes[v] for v in core.nodes], np.int64)
        plan = plan_buckets(sizes, pairs, min(table_limit, SPLIT_TABLE), SPLIT_ENTRIES)
        return Split(plan, Diffusion(sizes, pairs))

    def run(self, unary: Sequence[Array], pairs: dict[Pair, Array]) -> Relaxed:
        """Improve the messages for these costs, then eliminate."""
        core = shrink(unary, pairs, set(), CORE_TABLE)
        costs, tables = [core.unary[v] for v in core.nodes], list(core.pairs.values())
        self.diffusion.sweep(costs, tables, self._sweeps)
        self._sweeps = SWEEPS
        return _SplitRun(core, eliminate(self.plan, *self.diffusion.moved(costs, tables)))

    def fresh(self) -> Relaxation:
        """Return one with no messages."""
        return Split(self.plan, Diffusion(self.plan.sizes, self.plan.pairs))


class _SplitRun(Relaxed):
    def __init__(self, core: Core, run: Elimination) -> None:
        self.value = run.value + core.constant
        self._core, self._run = core, run

    def choice(self) -> Choice:
        x = np.zeros(len(self._core.unary), np.int64)
        x[list(self._core.nodes)] = self._run.choice()
        return self._core.complete(x)

    def marginals(self) -> list[Array]:
        return core_marginals(self._core, min_marginals(self._run))
