"""Compute time a TPU compiler wrote beside its fusions (`estimated_cycles`), times trip counts.

The figures know no overlap and leave communication out; a dumped schedule (`schedule.py`) has both. The GPU
compiler writes `reification_cost` (`--xla_gpu_collect_cost_model_stats=true`), which is not read: JAX 0.10.2
wrote 52 s beside one elementwise fusion of a step of milliseconds, which its own schedule takes as free.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from .calls import branches, calls
from .frames import Frame
from .module import HloModule, Instruction

CYCLES_PER_S: Mapping[str, float] = MappingProxyType(
    {"v4": 1.05e9, "v5e": 1.5e9, "v5p": 1.75e9, "v6e": 1.75e9, "TPU7x": 1.9e9}
)
"""Cycles per second by TPU: `cycles_per_microsecond` in schedules dumped for each (libtpu 0.0.42.1)."""

_UNKNOWN_CYCLES = 2**63 - 1  # written beside what libtpu gives to the SparseCore
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')


def estimated_compute_s(module: HloModule, cycles_per_s: float) -> float | None:
    """Seconds one execution computes for, by the compiler's own estimates.

    Args:
        module: the final HLO, optimized for TPU.
        cycles_per_s: the clock the estimates are in, see `CYCLES_PER_S`.

    Returns:
        Seconds without communication; None where nothing has an estimate, or a loop that holds some has an
        unknown trip count. Of a conditional the longest branch counts.
    """
    return _frame_s(Frame(module, module.entry), cycles_per_s) or None


def own_estimate_s(instruction: Instruction, cycles_per_s: float | None) -> float | None:
    """Seconds beside an instruction, which cover what a fusion calls; None where there are none."""
    found = _CYCLES.search(instruction.backend_config)
    if found is None or int(found[1]) == _UNKNOWN_CYCLES or not cycles_per_s:
        return None
    return int(found[1]) / cycles_per_s


def _frame_s(frame: Frame, cycles_per_s: float | None) -> float | None:
    """Seconds of one run of a computation: 0 where nothing in it has an estimate."""
    total = 0.0
    for instruction in frame.computation.instructions:
        seconds = _instruction_s(frame, instruction, cycles_per_s)
        if seconds is None:
            return None
        total += seconds
    return total


def _instruction_s(frame: Frame, instruction: Instruction, cycles_per_s: float | None) -> float | None:
    own = own_estimate_s(instruction, cycles_per_s)
    if own is not None:
        return own
    if instruction.opcode == "conditional":
        taken = [_frame_s(branch, cycles_per_s) for branch in branches(frame, instruction)]
        return None if None in taken else max((each for each in taken if each), default=0.0)
    total = 0.0
    for call in calls(frame, instruction):
        inside = _frame_s(call.frame, cycles_per_s)
        if inside is None or (inside and call.times is None):
            return None
        total += inside * (call.times or 0)
    return total
