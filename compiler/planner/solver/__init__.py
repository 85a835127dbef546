"""Exact and near-exact solver for the planner's problem: pairwise costs under memory at every live point."""

from .failure import InfeasibleBudget, NoAllowedChoice
from .problem import Edge, EdgeUsage, Problem, Usage, make_problem
from .solution import Solution, SolveOptions, Statistics
from .solve import solve

__all__ = [
    "Edge",
    "EdgeUsage",
    "InfeasibleBudget",
    "NoAllowedChoice",
    "Problem",
    "Solution",
    "SolveOptions",
    "Statistics",
    "Usage",
    "make_problem",
    "solve",
]
