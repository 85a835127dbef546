"""The planner: from a program and a cluster to a plan."""

from .options import PlanOptions
from .search import plan_program

__all__ = ["PlanOptions", "plan_program"]
