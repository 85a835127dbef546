"""What a verification found: predicted and compiled, side by side."""

from __future__ import annotations

import msgspec

MEMORY_OVER, MEMORY_UNDER, BYTES_OFF, LEAST_MEMORY = 0.10, 0.05, 0.05, 0.001
"""Tolerances: memory predicted up to 10 % above the compiler's and 5 % below, bytes sent within 5 %. What is
less than a thousandth of a device's memory, such as the padding of small arrays, is no difference."""


class _Record(msgspec.Struct, frozen=True):
    """Base of the report's records; ``msgspec.json.encode`` writes them."""


class Cause(_Record, frozen=True):
    """Part of a kind of communication that one line of the user causes.

    Attributes:
        source: ``file:line``, or nothing where the compiler kept none.
        op: the operation's scope as the compiler names it, or the planned operation.
        bytes: of all times together.
        count: how many times a step does it.
    """

    source: str
    op: str
    bytes: int
    count: int


class Communication(_Record, frozen=True):
    """All communication of one kind over the same axes.

    Attributes:
        kind: the collective.
        axes: mesh axes of its groups; ``"?"`` where the groups cut through an axis.
        planned_bytes: bytes of the arrays over one group, all times of a step together.
        compiled_bytes: the same of what the compiler made.
        planned_count: collectives planned.
        compiled_count: arrays sent by the compiled program, which joins several in one collective.
        planned: causes in the plan, most bytes first.
        compiled: causes in the compiled program, most bytes first.
    """

    kind: str
    axes: tuple[str, ...]
    planned_bytes: int
    compiled_bytes: int
    planned_count: int
    compiled_count: int
    planned: tuple[Cause, ...]
    compiled: tuple[Cause, ...]

    @property
    def difference(self) -> float:
        """Compiled less planned bytes, as a part of the larger."""
        most = max(self.planned_bytes, self.compiled_bytes)
        return (self.compiled_bytes - self.planned_bytes) / most if most else 0.0


class MemoryComparison(_Record, frozen=True):
    """Peak bytes of one device.

    Attributes:
        planned_bytes: as the plan predicts.
        compiled_bytes: as the compiler assigned; 0 where it says only that the program does not fit.
        usable_bytes: what a device has for the program.
    """

    planned_bytes: int
    compiled_bytes: int
    usable_bytes: int

    @property
    def difference_bytes(self) -> int:
        """How far apart the two are."""
        return abs(self.planned_bytes - self.compiled_bytes)

    @property
    def difference(self) -> float:
        """Planned less compiled, as a part of compiled: negative where the plan promises too little."""
        return (
            (self.planned_bytes - self.compiled_bytes) / self.compiled_bytes if self.compiled_bytes else 0.0
        )


class Timing(_Record, frozen=True):
    """The compiler's own estimate of a step, in seconds; None where it makes none.

    Attributes:
        planned_s: as the plan predicts.
        planned_communication_s: the part of it that is communication.
        compiled_s: as the compiler's schedule says.
        compute_s: compute in that schedule.
        exposed_communication_s: communication that nothing hides.
        remark: what to think of the figures, or why there are none.
    """

    planned_s: float
    planned_communication_s: float
    compiled_s: float | None = None
    compute_s: float | None = None
    exposed_communication_s: float | None = None
    remark: str = ""


class VerifyReport(_Record, frozen=True):
    """A plan beside what XLA's compiler made of it.

    Attributes:
        program: the program's name.
        cluster: the cluster's name.
        compiler: the compiler's name and version.
        communication: every kind over every set of axes, planned or compiled, most bytes first.
        memory: peak memory.
        timing: step time.
        full_rematerializations: the partitioner's complaints about reshards it makes in a full copy.
        does_not_fit: the compiler's words where the program exceeds the device's memory.
        compile_s: seconds the compiler took.
        remarks: what could not be checked, and why.
    """

    program: str
    cluster: str
    compiler: str
    communication: tuple[Communication, ...]
    memory: MemoryComparison
    timing: Timing
    full_rematerializations: tuple[str, ...]
    does_not_fit: str
    compile_s: float
    remarks: tuple[str, ...] = ()

    @property
    def unplanned(self) -> tuple[Communication, ...]:
        """Kinds of communication that the compiler made and the plan does not have."""
        return tuple(c for c in self.communication if not c.planned_bytes)

    @property
    def problems(self) -> tuple[str, ...]:
        """What differs by more than the tolerances, one line each; empty for a plan that holds."""
        found = [_communication_problem(c) for c in self.communication]
        found += [f"full rematerialization: {line}" for line in self.full_rematerializations]
        return tuple(filter(None, [self._memory_problem(), *found]))

    @property
    def holds(self) -> bool:
        """Whether the compiled program is what was planned, within the tolerances."""
        return not self.problems

    def _memory_problem(self) -> str:
        if self.does_not_fit:
            return f"does not fit: {self.does_not_fit.splitlines()[0]}"
        memory = self.memory
        off, least_bytes = memory.difference, LEAST_MEMORY * memory.usable_bytes
        if -MEMORY_UNDER <= off <= MEMORY_OVER or memory.difference_bytes < least_bytes:
            return ""
        word = "more" if off > 0 else "less"
        return f"peak memory: the plan has {abs(off):.1%} {word} than the compiled program"

    def __str__(self) -> str:
        from ..display.verification import format_report

        return format_report(self)


def _communication_problem(c: Communication) -> str:
    where = f"{c.kind} over {','.join(c.axes)}"
    if not c.planned_bytes:
        lines = ", ".join(dict.fromkeys(cause.source or cause.op for cause in c.compiled[:3]))
        return f"{where}: {c.compiled_bytes} bytes that nobody planned (at {lines})"
    if not c.compiled_bytes:
        return f"{where}: {c.planned_bytes} bytes planned, none compiled"
    if abs(c.difference) <= BYTES_OFF:
        return ""
    return f"{where}: {c.planned_bytes} bytes planned, {c.compiled_bytes} compiled ({c.difference:+.0%})"
