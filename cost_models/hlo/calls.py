"""What an instruction runs besides itself: the loops, branches, fusions and calls, and how often."""

from __future__ import annotations

from dataclasses import dataclass

from .frames import Frame, is_caller
from .module import Instruction
from .trips import trip_count

_BRANCHES = ("branch_computations", "true_computation", "false_computation")


@dataclass(frozen=True)
class Call:
    """A computation an instruction runs.

    Attributes:
        frame: the activation.
        times: runs for one run of the instruction; None where a loop's trip count is unknown.
    """

    frame: Frame
    times: int | None = 1


def calls(frame: Frame, instruction: Instruction) -> tuple[Call, ...]:
    """What `instruction` runs, in order; nothing for the scalar functions of reductions, sorts and scatters.

    Of a conditional only one branch runs: `branches` gives those.
    """
    if instruction.opcode == "while":
        trips = trip_count(frame, instruction)
        tests = None if trips is None else trips + 1
        times = {"condition": tests, "body": trips}
    elif is_caller(instruction.opcode):
        times = dict.fromkeys(("calls", "to_apply", "called_computations", "async_wrapped"), 1)
    else:
        return ()
    return tuple(
        Call(frame.enter(instruction, name), count)
        for key, count in times.items()
        for name in instruction.calls.get(key, ())
    )


def branches(frame: Frame, instruction: Instruction) -> tuple[Frame, ...]:
    """The computations of which a conditional runs one."""
    names = [name for key in _BRANCHES for name in instruction.calls.get(key, ())]
    return tuple(frame.enter(instruction, name) for name in names)


def times(outer: int | None, inner: int | None) -> int | None:
    """Product of two counts, unknown when either is (0 runs of anything are 0)."""
    if outer == 0 or inner == 0:
        return 0
    return None if outer is None or inner is None else outer * inner
