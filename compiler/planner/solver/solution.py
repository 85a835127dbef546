"""What the solver is asked and what it answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from .deadline import NEVER, Deadline
from .problem import Array, Choice


@dataclass(frozen=True)
class SolveOptions:
    """How hard to search. Options change the search, never the costs.

    Attributes:
        effort: 0 local search and a quick bound; 1 also recombination of the choices met; 2 also integer
            programming; 3 as 2 without size limits.
        gap_tolerance: Stop when (objective - bound) / objective is at most this.
        deadline: When to stop. Until then as asked; after it the search goes on at effort 0, and only until
            it has a choice that fits. One evaluation of the relaxation is not interrupted. Reaching the
            deadline makes the answer depend on the machine.
        cutoff_s: A cost known from elsewhere: stop, with any choice that fits, once none can cost so little.
        cutoff_bytes: A budget known from elsewhere to work: where nothing fits, a least budget that cannot
            be below this one is not looked for closely.
        table_limit: Most entries of one elimination table; larger ones are split, and the bound is then
            weaker.
        wants_floors: Whether a solution that may not be the best is to say what each strategy costs at least.
        partition: Class of each node to tie while searching, or None to find repeated blocks.

    Raises:
        ValueError: Where the effort is not 0, 1, 2 or 3.
    """

    effort: int = 2
    gap_tolerance: float = 1e-3
    deadline: Deadline = NEVER
    cutoff_s: float = math.inf
    cutoff_bytes: float = math.inf
    table_limit: int = 4_000_000
    wants_floors: bool = False
    partition: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.effort not in range(4):
            raise ValueError(f"effort is {self.effort!r}; it must be 0, 1, 2 or 3")


@dataclass(frozen=True)
class Statistics:
    """Sizes and work of one solve.

    Attributes:
        nodes: Nodes of the problem.
        strategies: Strategies of the problem.
        reduced_strategies: Strategies left by preprocessing.
        table_entries: Entries of all elimination tables.
        is_exact_elimination: Whether no table had to be split.
        classes: Classes of tied nodes, or 0 where nothing was tied.
        active_rows: Live points priced or constrained.
        eliminations: Bucket eliminations made.
        integer_programs: Integer programs solved.
        search_nodes: Branch-and-bound nodes of all of them.
        phase_cpu_s: CPU seconds by phase.
    """

    nodes: int
    strategies: int
    reduced_strategies: int
    table_entries: int
    is_exact_elimination: bool
    classes: int
    active_rows: int
    eliminations: int
    integer_programs: int
    search_nodes: int
    phase_cpu_s: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Solution:
    """A choice with its certificate.

    Attributes:
        choice: Strategy of each node, shape [num_nodes].
        objective_s: Cost of the choice in seconds.
        bound_s: No feasible choice costs less, in seconds.
        peak_bytes: Largest memory at any live point under the choice.
        is_optimal: True where the bound meets the objective (to 1e-9 of it).
        is_cut_short: True where the deadline came before the search was done.
        statistics: Sizes and work.
        floors: For each node, what a feasible choice with each strategy costs at least, in seconds, shapes
            [k]; empty unless wanted.
    """

    choice: Choice
    objective_s: float
    bound_s: float
    peak_bytes: float
    is_optimal: bool
    is_cut_short: bool
    statistics: Statistics
    floors: tuple[Array, ...] = ()

    @property
    def gap(self) -> float:
        """(objective - bound) / objective, 0 where the two meet."""
        return max(self.objective_s - self.bound_s, 0.0) / max(abs(self.objective_s), 1e-300)
