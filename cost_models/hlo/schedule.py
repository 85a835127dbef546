"""The compiler's own timeline of a module: seconds of computation and of communication nothing hides.

Time of a computation is that of its dumped schedule; a loop in it counts its body's schedule times its trip
count. Where a computation has no schedule, the estimates beside its instructions stand in. What neither
prices is named, never guessed. Conditions of loops, a scalar comparison, are taken as free.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .calls import branches, calls, times
from .collectives import collective_kind
from .dump import SCHEDULE_FLAGS, Entry, Schedule, ScheduleDump, parse_dump, schedule_path
from .estimates import own_estimate_s
from .frames import Frame
from .module import HloModule, Instruction

__all__ = [
    "SCHEDULE_FLAGS",
    "Span",
    "Timeline",
    "estimated_timeline",
    "read_timeline",
    "schedule_path",
]

_WORK = ("fusion", "dot", "convolution", "custom-call", "sort", "scatter", "reduce", "call-start")
_NO_WORK_TARGETS = ('"AllocateBuffer"', '"ConcatBitcast"')


@dataclass(frozen=True)
class Span:
    """One instruction on the timeline of its computation.

    Attributes:
        name: of the instruction, at scheduling time.
        opcode: its opcode.
        start_s: seconds from the start of one run of the computation.
        end_s: the same for its end. Of an asynchronous pair, start and done each take a moment; the transfer
            runs between them.
        is_communication: it moves data between devices, or waits for that.
        computation: name of the computation it stands in.
        count: runs in one execution of the module; None where a loop has an unknown trip count.
    """

    name: str
    opcode: str
    start_s: float
    end_s: float
    is_communication: bool
    computation: str
    count: int | None


@dataclass(frozen=True)
class Timeline:
    """Predicted time of one execution of a module, by its compiler.

    Attributes:
        spans: every instruction of every scheduled computation that runs.
        compute_s: seconds of all that is not communication.
        exposed_communication_s: seconds of communication, and of waiting for it, with no computation beside.
        unpriced: instructions and loops the compiler gave no time for, each once.
    """

    spans: tuple[Span, ...] = ()
    compute_s: float = 0.0
    exposed_communication_s: float = 0.0
    unpriced: tuple[str, ...] = ()

    @property
    def priced_s(self) -> float:
        """Seconds of all that has a time: a lower bound where `unpriced` is not empty."""
        return self.compute_s + self.exposed_communication_s

    @property
    def total_s(self) -> float | None:
        """Seconds of one execution; None where something has no time."""
        return None if self.unpriced else self.priced_s


def read_timeline(dump: str, module: HloModule | None = None) -> Timeline:
    """The timeline in the text of a `*.schedule.txt`, which `SCHEDULE_FLAGS` make the compiler write.

    Args:
        dump: the file's text.
        module: the final HLO, whose cycle estimates price computations without a schedule (TPU).

    Raises:
        HloFormatError: the text is not a schedule dump.
    """
    parsed = parse_dump(dump)
    rate = max((each.cycles_per_s for each in parsed.schedules.values()), default=None)
    return _Reader(parsed, module, rate).timeline()


def estimated_timeline(module: HloModule, cycles_per_s: float | None) -> Timeline:
    """The timeline without a dump (TPU writes none when nothing is asynchronous): estimates alone.

    Args:
        module: the final HLO.
        cycles_per_s: as for `estimated_compute_s`; None where it is not known, which prices nothing.
    """
    return _Reader(ScheduleDump(module, {}), None, cycles_per_s).timeline()


@dataclass(frozen=True)
class _Reader:
    dump: ScheduleDump
    final: HloModule | None
    cycles_per_s: float | None

    def timeline(self) -> Timeline:
        found = self._price(Frame(self.dump.module, self.dump.module.entry))
        return replace(found, unpriced=tuple(dict.fromkeys(found.unpriced)))

    def _price(self, frame: Frame) -> Timeline:
        """One run of a computation, by its schedule or else by estimates in the final HLO."""
        name = frame.computation.name
        schedule = self.dump.schedules.get(name)
        if schedule is not None:
            own = replace(frame, module=self.dump.module, computation=self.dump.module.computations[name])
            return self._scheduled(own, schedule)
        if self.final is not None and name in self.final.computations:
            frame = replace(frame, module=self.final, computation=self.final.computations[name])
        return _sum(self._estimated(frame, each) for each in frame.computation.instructions)

    def _scheduled(self, frame: Frame, schedule: Schedule) -> Timeline:
        found: list[Timeline] = []
        flying: dict[str, bool] = {}  # asynchronous starts without their done: is it communication
        clock = 0.0
        for entry in schedule.entries:
            talks = _communicates(frame, entry.instruction)
            found.append(_wait((entry.start - clock) / schedule.cycles_per_s, flying.values()))
            found.append(self._entry(frame, entry, talks, schedule.cycles_per_s))
            clock = max(clock, entry.end)
            if entry.instruction.opcode.endswith("-start"):
                flying[entry.instruction.name] = talks
            elif entry.instruction.opcode.endswith("-done"):
                flying.pop(entry.instruction.operands[0], None)
        return _sum(found)

    def _entry(self, frame: Frame, entry: Entry, talks: bool, cycles_per_s: float) -> Timeline:
        """One scheduled instruction, or what a loop, branch or call among them runs."""
        start_s, end_s = entry.start / cycles_per_s, entry.end / cycles_per_s
        name, opcode = entry.instruction.name, entry.instruction.opcode
        span = Span(name, opcode, start_s, end_s, talks, frame.computation.name, 1)
        busy_s = end_s - start_s
        inner = self._called(frame, entry.instruction)
        if inner is None or (not inner.spans and entry.end - entry.start >= 1):
            # The TPU compiler prices a loop whole, trips included; the GPU compiler next to nothing.
            return Timeline((span,), 0.0 if talks else busy_s, busy_s if talks else 0.0)
        return _sum((Timeline((span,)), inner))

    def _estimated(self, frame: Frame, instruction: Instruction) -> Timeline:
        """An instruction without a schedule: its estimate, what it calls, or its name among the unpriced."""
        inner = self._called(frame, instruction)
        if inner is not None:
            return inner
        estimate_s = own_estimate_s(instruction, self.cycles_per_s)
        if estimate_s is not None:
            return Timeline(compute_s=estimate_s)
        works = instruction.opcode in _WORK or _communicates(frame, instruction)
        idle = instruction.attributes.get("custom_call_target") in _NO_WORK_TARGETS
        return Timeline(unpriced=(instruction.name,) if works and not idle else ())

    def _called(self, frame: Frame, instruction: Instruction) -> Timeline | None:
        """Time of the loop, branch or call an instruction is; None for other instructions."""
        if instruction.opcode == "conditional":
            taken = [self._price(branch) for branch in branches(frame, instruction)]
            longest = max(taken, key=lambda each: each.priced_s)
            return replace(longest, unpriced=tuple(name for each in taken for name in each.unpriced))
        if instruction.opcode not in ("while", "call"):
            return None
        run = calls(frame, instruction)[-1]  # of a loop the body; the condition stands before it
        unknown = () if run.times is not None else (instruction.name,)
        return _sum((_repeated(self._price(run.frame), run.times), Timeline(unpriced=unknown)))


def _wait(seconds: float, flying: Iterable[bool]) -> Timeline:
    """A gap in the schedule: for communication in flight, else for a copy in flight.

    With nothing in flight it is the scheduler's padding, one unit per instruction, and no time.
    """
    waiting = tuple(flying)
    if seconds <= 0 or not waiting:
        return Timeline()
    talks = any(waiting)
    return Timeline((), 0.0 if talks else seconds, seconds if talks else 0.0)


def _repeated(once: Timeline, count: int | None) -> Timeline:
    spans = tuple(replace(span, count=times(count, span.count)) for span in once.spans)
    runs = 1 if count is None else count  # an unknown count leaves one run as the lower bound
    return replace(
        once,
        spans=spans,
        compute_s=once.compute_s * runs,
        exposed_communication_s=once.exposed_communication_s * runs,
    )


def _sum(found: Iterable[Timeline]) -> Timeline:
    parts = tuple(found)
    return Timeline(
        tuple(span for part in parts for span in part.spans),
        sum(part.compute_s for part in parts),
        sum(part.exposed_communication_s for part in parts),
        tuple(name for part in parts for name in part.unpriced),
    )


def _communicates(frame: Frame, instruction: Instruction) -> bool:
    """It is a collective, the end of one, or a fusion or asynchronous call around one."""
    base = instruction.opcode.removesuffix("-done")
    if collective_kind(replace(instruction, opcode=base)):
        return True
    if instruction.opcode.endswith(("-done", "-update")):
        started = frame.computation.by_name[instruction.operands[0]]
        return _communicates(frame, started)
    if instruction.opcode != "fusion" and not instruction.opcode.endswith("-start"):
        return False
    return any(
        _communicates(call.frame, inner)
        for call in calls(frame, instruction)
        for inner in call.frame.computation.instructions
    )
