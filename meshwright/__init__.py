"""meshwright: write a JAX program for one device, run it planned on a mesh.

The whole public API is here; everything else may change.
"""

__version__ = "0.1.0"

from .compiler.errors import (
    ArgumentError,
    HardwareRecordError,
    IndivisibleError,
    InfeasibleError,
    InvalidMeshError,
    MeshwrightError,
    PinError,
    PlanFormatError,
    PlanMismatchError,
    SolverError,
    TraceError,
    UnknownClusterError,
    UnsupportedError,
)
from .compiler.plan import Plan
from .cost_models.cluster import Cluster
from .runtime.autoparallel import AutoParallel, autoparallel, plan

__all__ = [
    "ArgumentError",
    "AutoParallel",
    "Cluster",
    "HardwareRecordError",
    "IndivisibleError",
    "InfeasibleError",
    "InvalidMeshError",
    "MeshwrightError",
    "PinError",
    "Plan",
    "PlanFormatError",
    "PlanMismatchError",
    "SolverError",
    "TraceError",
    "UnknownClusterError",
    "UnsupportedError",
    "__version__",
    "autoparallel",
    "plan",
]
