"""A dumped latency-hiding schedule as data: the module as it was scheduled, and cycles of its instructions.

The dump is a `xla.ScheduleProto` in text form: the module, then for each computation that holds something
asynchronous the start and end of every instruction. Names differ from the final HLO where passes ran after
the scheduler; computations keep theirs. Computations without anything asynchronous have no schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import HloFormatError
from .module import Computation, HloModule, Instruction
from .shape import TupleShape
from .textproto import Message, messages, parse_textproto, text_of, texts

SCHEDULE_FLAGS: Mapping[str, tuple[str, ...]] = {
    "tpu": ("--xla_dump_to={directory}", "--xla_dump_latency_hiding_schedule=true"),
    "gpu": (
        "--xla_dump_to={directory}",
        "--xla_dump_latency_hiding_schedule=true",
        "--xla_gpu_enable_latency_hiding_scheduler=true",
    ),
}
"""Flags for `XLA_FLAGS`, set before JAX starts: each compile then writes a schedule to `{directory}`.

The same names without dashes work as `compiler_options`; `LIBTPU_INIT_ARGS` does not know them and ends the
process. On TPU none is written at `JAX_EXEC_TIME_OPTIMIZATION_EFFORT=-1.0`, or where nothing is asynchronous.
"""

_UNREAD = frozenset(
    {
        "shape",
        "layout",
        "statistics_viz",
        "frontend_attributes",
        "metadata",
        "sharding",
        "program_shape",
        "host_program_shape",
        "stack_frame_index",
        "schedule",
        "scheduler_statistics",
        "device_assignment",
        "input_output_alias",
        "window",
        "dot_dimension_numbers",
        "convolution_dimension_numbers",
        "gather_dimension_numbers",
        "precision_config",
    }
)
_INTEGERS = ("s32s", "u32s", "s64s", "u64s")
_NO_SHAPE = TupleShape(())


@dataclass(frozen=True)
class Entry:
    """When one instruction runs, in cycles from the start of its computation."""

    instruction: Instruction
    start: float
    end: float


@dataclass(frozen=True)
class Schedule:
    """The schedule of one computation, in order of time."""

    entries: tuple[Entry, ...]
    cycles_per_s: float


@dataclass(frozen=True)
class ScheduleDump:
    """The module at scheduling time (names, opcodes and calls, no shapes) and schedules by computation."""

    module: HloModule
    schedules: Mapping[str, Schedule]


def schedule_path(directory: str | Path, module_name: str) -> Path | None:
    """The file a compile of `module_name` wrote its schedule to; None when it wrote none.

    The name holds no number: a later compile of a module of the same name overwrites it.
    """
    path = Path(directory) / f"{module_name}.schedule.txt"
    return path if path.is_file() else None


def parse_dump(text: str) -> ScheduleDump:
    """Read the text of a `*.schedule.txt`.

    Raises:
        HloFormatError: it is not the text form of a `ScheduleProto`.
    """
    top = parse_textproto(text, skip=_UNREAD)
    if not messages(top, "hlo_module"):
        raise HloFormatError("the dump holds no hlo_module")
    reader = _Reader(messages(top, "hlo_module")[0])
    schedules = dict(reader.schedule(each) for each in messages(top, "computation_schedules"))
    return ScheduleDump(reader.module, schedules)


class _Reader:
    def __init__(self, proto: Message) -> None:
        computations = messages(proto, "computations")
        everything = [each for computation in computations for each in messages(computation, "instructions")]
        self._names = {text_of(each, "id"): text_of(each, "name") for each in everything}
        self._computation_names = {text_of(each, "id"): text_of(each, "name") for each in computations}
        self._instructions: dict[str, Instruction] = {}
        parsed = [self._computation(each) for each in computations]
        by_name = {each.name: each for each in parsed}
        entry = by_name[text_of(proto, "entry_computation_name", parsed[-1].name)]
        self.module = HloModule(text_of(proto, "name"), entry, by_name)

    def schedule(self, proto: Message) -> tuple[str, Schedule]:
        entries = tuple(
            Entry(
                self._instructions[text_of(each, "id")],
                float(text_of(each, "start_timestamp_cycles", "0")),
                float(text_of(each, "end_timestamp_cycles", "0")),
            )
            for each in messages(proto, "instructions")
        )
        ordered = tuple(sorted(entries, key=lambda entry: (entry.start, entry.end)))
        rate = float(text_of(proto, "cycles_per_microsecond", "0")) * 1e6
        name = self._computation_names[text_of(proto, "computation_id")]
        if rate <= 0:
            raise HloFormatError(f"the schedule of {name} has no cycles_per_microsecond")
        return name, Schedule(ordered, rate)

    def _computation(self, proto: Message) -> Computation:
        root = text_of(proto, "root_id")
        read = tuple(self._instruction(each, root) for each in messages(proto, "instructions"))
        return Computation(text_of(proto, "name"), read)

    def _instruction(self, proto: Message, root: str) -> Instruction:
        number, opcode = text_of(proto, "id"), text_of(proto, "opcode")
        literal = text_of(proto, "parameter_number", "0") if opcode == "parameter" else _integer(proto)
        instruction = Instruction(
            name=text_of(proto, "name"),
            opcode=opcode,
            shape=_NO_SHAPE,
            operands=tuple(self._names[each] for each in texts(proto, "operand_ids")),
            calls=self._calls(opcode, texts(proto, "called_computation_ids")),
            attributes={
                "index": text_of(proto, "tuple_index", "0"),
                "direction": text_of(proto, "comparison_direction"),
                "backend_config": text_of(proto, "backend_config"),
                "custom_call_target": text_of(proto, "custom_call_target"),
            },
            literal=literal,
            is_root=number == root,
        )
        self._instructions[number] = instruction
        return instruction

    def _calls(self, opcode: str, numbers: list[str]) -> dict[str, tuple[str, ...]]:
        names = tuple(self._computation_names[each] for each in numbers)
        if opcode == "while":  # the proto lists the body first
            return {"body": names[:1], "condition": names[1:]}
        return {"branch_computations" if opcode == "conditional" else "calls": names} if names else {}


def _integer(proto: Message) -> str:
    for literal in messages(proto, "literal"):
        for name in _INTEGERS:
            if name in literal:
                return text_of(literal, name)
    return ""
