"""Reader of optimized HLO text and of the compiler's own schedule: what XLA made of a plan, for TPU and GPU.

`parse_module` reads `compiled.as_text()`, `collectives` lists its communication, `estimated_compute_s` adds
up what a TPU compiler wrote beside its fusions, `read_timeline` reads a dumped latency-hiding schedule.
"""

from .collectives import HloCollective, collectives
from .estimates import CYCLES_PER_S, estimated_compute_s
from .module import Computation, HloModule, Instruction, parse_module
from .schedule import SCHEDULE_FLAGS, Span, Timeline, estimated_timeline, read_timeline, schedule_path
from .shape import ArrayShape, TupleShape

__all__ = [
    "CYCLES_PER_S",
    "SCHEDULE_FLAGS",
    "ArrayShape",
    "Computation",
    "HloCollective",
    "HloModule",
    "Instruction",
    "Span",
    "Timeline",
    "TupleShape",
    "collectives",
    "estimated_compute_s",
    "estimated_timeline",
    "parse_module",
    "read_timeline",
    "schedule_path",
]
