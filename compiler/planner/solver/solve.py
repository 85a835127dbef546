"""The solver's visible sequence: shrink, bound the cost, fit, price memory, recombine, fix and branch, tie.

Each step may improve the incumbent or the bound; the search stops as soon as they are within the tolerance.
Once its time is over only the steps of effort 0 go on, until there is an incumbent.
"""

from __future__ import annotations

from .failure import NoAllowedChoice
from .preprocess import preprocess
from .problem import Problem
from .search import Search
from .solution import Solution, SolveOptions
from .steps import branch, ensure_feasible, price_memory, recombine, relax_without_memory, report_misfit, tie

STEPS = (
    (0, relax_without_memory),
    (0, ensure_feasible),
    (0, price_memory),
    (0, report_misfit),
    (1, recombine),
    (2, branch),
    (1, tie),
)


DEFAULTS = SolveOptions()


def solve(problem: Problem, options: SolveOptions = DEFAULTS) -> Solution:
    """Choose one strategy per node at least cost under the memory budget.

    Args:
        problem: What to solve; costs in seconds, memory in bytes.
        options: How hard to search.

    Returns:
        A feasible choice with a certified bound. The same input gives the same choice.

    Raises:
        ValueError: Where the problem is malformed.
        NoAllowedChoice: Where every choice has an infinite cost.
        InfeasibleBudget: Where no choice fits the budget, or none was found (`is_proven` tells which).
            Carries the least budget known to work.
        SolverError: Where the integer solver fails.
    """
    problem.validate()
    reduced = preprocess(problem)
    if reduced is None:
        raise NoAllowedChoice
    search = Search(problem, reduced, options)
    for effort, step in STEPS:
        if search.is_finished():
            break
        if search.effort >= effort:
            search.timed(step)
    return search.solution()
