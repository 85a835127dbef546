"""The plan: what was decided for one program on one mesh, as an object and as a file."""

from .fingerprint import program_fingerprint
from .io import load_plan, save_plan
from .plan import (
    ArraySpec,
    Certificate,
    CollectiveUse,
    CostTerms,
    LiveTensor,
    MemoryProfile,
    MeshSpec,
    Plan,
    Reshard,
    Stage,
    ValueLayout,
)

__all__ = [
    "ArraySpec",
    "Certificate",
    "CollectiveUse",
    "CostTerms",
    "LiveTensor",
    "MemoryProfile",
    "MeshSpec",
    "Plan",
    "Reshard",
    "Stage",
    "ValueLayout",
    "load_plan",
    "program_fingerprint",
    "save_plan",
]
