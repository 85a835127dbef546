"""The planner: from a program and a cluster to a plan."""

from .mesh_option import MeshLike
from .meshes import given_mesh
from .options import PlanOptions
from .pin_option import PinLike
from .search import plan_program

__all__ = ["MeshLike", "PinLike", "PlanOptions", "given_mesh", "plan_program"]
