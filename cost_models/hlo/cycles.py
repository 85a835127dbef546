"""Compute time a TPU compiler wrote into its HLO: `estimated_cycles` beside fusions, times trip counts.

The figures know no overlap and price no communication; a dumped schedule (`schedule.py`) has both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from .calls import branches, calls
from .frames import Frame
from .module import HloModule, Instruction

CYCLES_PER_S: Mapping[str, float] = MappingProxyType({"v5e": 1.5e9, "v5p": 1.75e9, "v6e": 1.75e9})
"""Cycles per second by hardware name: `cycles_per_microsecond` of schedules dumped for these (libtpu 0.0.42.1)."""

_ESTIMATE = re.compile(r'"estimated_cycles":"(\d+)"')


def estimated_compute_s(module: HloModule, cycles_per_s: float) -> float | None:
    """Seconds one execution computes for, by the compiler's own cycle estimates.

    Args:
        module: optimized for TPU; other backends write no estimates.
        cycles_per_s: the clock the estimates are in, see `CYCLES_PER_S`.

    Returns:
        Seconds without communication; None where nothing has an estimate, or a loop that holds some has an
        unknown trip count. Of a conditional the longest branch counts.
    """
    cycles = frame_cycles(Frame(module, module.entry))
    return cycles / cycles_per_s if cycles else None


def frame_cycles(frame: Frame) -> int | None:
    """Cycles of one run of a computation: 0 where nothing in it has an estimate, None where a count is unknown."""
    total = 0
    for instruction in frame.computation.instructions:
        cycles = _cycles(frame, instruction)
        if cycles is None:
            return None
        total += cycles
    return total


def own_cycles(instruction: Instruction) -> int | None:
    """The estimate beside an instruction, which covers what a fusion calls; None where there is none."""
    estimate = _ESTIMATE.search(instruction.backend_config)
    return None if estimate is None else int(estimate[1])


def _cycles(frame: Frame, instruction: Instruction) -> int | None:
    estimate = own_cycles(instruction)
    if estimate is not None:
        return estimate
    if instruction.opcode == "conditional":
        taken = [frame_cycles(branch) for branch in branches(frame, instruction)]
        return None if None in taken else max((each for each in taken if each), default=0)
    total = 0
    for call in calls(frame, instruction):
        inside = frame_cycles(call.frame)
        if inside is None or (inside and call.times is None):
            return None
        total += inside * (call.times or 0)
    return total
