"""meshwright: write a JAX program for one device, run it planned on a mesh.

The whole public API is here; everything else may change. What needs JAX is imported on first use, so that
``meshwright show`` and ``meshwright clusters`` start without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .compiler.errors import (
    ArgumentError,
    CalibrationError,
    CompilerError,
    HardwareRecordError,
    IndivisibleError,
    InfeasibleError,
    InvalidMeshError,
    MeshwrightError,
    PinError,
    PlanFormatError,
    PlanMismatchError,
    SolverError,
    TemplateError,
    TraceError,
    UnknownClusterError,
    UnsupportedError,
)
from .compiler.plan import Plan
from .cost_models.cluster import Cluster

if TYPE_CHECKING:
    from .compiler.rules.checker import check_rule
    from .compiler.rules.declared import register_rule, unregister_rule
    from .runtime.autoparallel import AutoParallel, autoparallel, plan
    from .runtime.verification import verify

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "AutoParallel",
    "CalibrationError",
    "Cluster",
    "CompilerError",
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
    "TemplateError",
    "TraceError",
    "UnknownClusterError",
    "UnsupportedError",
    "__version__",
    "autoparallel",
    "check_rule",
    "plan",
    "register_rule",
    "unregister_rule",
    "verify",
]

_LAZY = {
    **dict.fromkeys(("AutoParallel", "autoparallel", "plan"), ".runtime.autoparallel"),
    **dict.fromkeys(("register_rule", "unregister_rule"), ".compiler.rules.declared"),
    "check_rule": ".compiler.rules.checker",
    "verify": ".runtime.verification",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_LAZY[name], __name__), name)
    return value
