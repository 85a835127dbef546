"""Optimized HLO as data: modules, computations and instructions, read from `compiled.as_text()`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ..errors import HloFormatError
from .shape import Shape, parse_shape
from .source import FrameTables
from .tokens import attributes, fields, group_end, split_commas

# Attributes that name computations to run, in the order their computations run.
CALL_ATTRIBUTES = (
    "calls",
    "to_apply",
    "condition",
    "body",
    "branch_computations",
    "true_computation",
    "false_computation",
    "called_computations",
    "async_wrapped",
    "select",
    "scatter",
    "comparator",
)


@dataclass(frozen=True)
class Instruction:
    """One instruction of a computation.

    Attributes:
        name: its name without `%`, unique in the module.
        opcode: as printed: `fusion`, `all-gather-start`.
        shape: of its result.
        operands: names of the instructions it reads, all in the same computation.
        calls: the computations each call attribute names: `{"body": ("region_0",), ...}`.
        attributes: every attribute, as raw text.
        op_name: path of the JAX operation it came from, or "".
        frames: (file, line) of the program it came from, innermost first.
        literal: what stands in the parentheses of a `constant` or `parameter`, else "".
        is_root: it is the result of its computation.
    """

    name: str
    opcode: str
    shape: Shape
    operands: tuple[str, ...] = ()
    calls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    op_name: str = ""
    frames: tuple[tuple[str, int], ...] = ()
    literal: str = ""
    is_root: bool = False

    @property
    def source_file(self) -> str:
        """File of the innermost frame, or ""."""
        return self.frames[0][0] if self.frames else ""

    @property
    def source_line(self) -> int:
        """Line of the innermost frame, or 0."""
        return self.frames[0][1] if self.frames else 0

    @property
    def source(self) -> str:
        """`file:line`, or ""."""
        return f"{self.source_file}:{self.source_line}" if self.frames else ""

    @property
    def backend_config(self) -> str:
        """What the backend noted, as raw text (JSON in practice)."""
        return self.attributes.get("backend_config", "")


@dataclass(frozen=True)
class Computation:
    """A named list of instructions; in a scheduled module their order is the order of execution."""

    name: str
    instructions: tuple[Instruction, ...]

    @cached_property
    def by_name(self) -> Mapping[str, Instruction]:
        """Its instructions by name."""
        return {instruction.name: instruction for instruction in self.instructions}

    @cached_property
    def root(self) -> Instruction:
        """The instruction whose value is the result; the last when none is marked."""
        marked = [instruction for instruction in self.instructions if instruction.is_root]
        return marked[0] if marked else self.instructions[-1]

    @cached_property
    def users(self) -> Mapping[str, tuple[Instruction, ...]]:
        """The instructions that read each instruction, by its name."""
        found: dict[str, list[Instruction]] = {}
        for instruction in self.instructions:
            for operand in dict.fromkeys(instruction.operands):
                found.setdefault(operand, []).append(instruction)
        return {name: tuple(users) for name, users in found.items()}

    @cached_property
    def parameters(self) -> Mapping[int, Instruction]:
        """Its parameters by number."""
        return {int(each.literal): each for each in self.instructions if each.opcode == "parameter"}


@dataclass(frozen=True)
class HloModule:
    """A compiled module: the program every partition runs."""

    name: str
    entry: Computation
    computations: Mapping[str, Computation]
    num_partitions: int = 1
    num_replicas: int = 1
    is_scheduled: bool = False


def parse_module(text: str) -> HloModule:
    """Read the HLO of one module, as `compiled.as_text()` gives it.

    Raises:
        HloFormatError: the text is not HLO, or holds a form this reader does not know; names the line.
    """
    return _Reader(text).module()


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.frames = FrameTables()
        self.computations: dict[str, Computation] = {}
        self.entry = ""
        self.name = ""  # of the computation being read
        self.body: list[Instruction] = []

    def module(self) -> HloModule:
        start = next((i for i, line in enumerate(self.lines) if line.startswith("HloModule ")), None)
        if start is None:
            raise HloFormatError("no line starts with 'HloModule'")
        header = self.lines[start].removeprefix("HloModule ")
        for number, line in enumerate(self.lines[start + 1 :], start + 2):
            try:
                self._line(line)
            except (ValueError, IndexError, KeyError) as error:
                raise HloFormatError(str(error), number, line) from error
        return self._finish(header)

    def _finish(self, header: str) -> HloModule:
        if self.name:
            raise HloFormatError(f"computation {self.name} is not closed", len(self.lines), self.lines[-1])
        if not self.entry:
            raise HloFormatError("no computation is marked ENTRY")
        name, *rest = split_commas(header)
        options = attributes(", ".join(rest))
        return HloModule(
            name,
            self.computations[self.entry],
            self.computations,
            int(options.get("num_partitions", 1)),
            int(options.get("replica_count", options.get("num_replicas", 1))),
            options.get("is_scheduled") == "true",
        )

    def _line(self, line: str) -> None:
        if self.name:
            self._body_line(line)
        elif line.rstrip().endswith("{") and not line.startswith(" "):
            self._open(line)
        else:
            self.frames.add(line)

    def _open(self, line: str) -> None:
        is_entry = line.startswith("ENTRY ")
        self.name = line.removeprefix("ENTRY ").split(None, 1)[0].lstrip("%")
        self.body = []
        if is_entry:
            self.entry = self.name

    def _body_line(self, line: str) -> None:
        if line.startswith("}"):
            if not self.body:
                raise ValueError(f"computation {self.name} is empty")
            self.computations[self.name] = Computation(self.name, tuple(self.body))
            self.name = ""
        elif line.strip():
            self.body.append(_instruction(line.strip(), self.frames))


def _instruction(line: str, tables: FrameTables) -> Instruction:
    """`[ROOT ]%name = shape opcode(operands), attributes`."""
    left, equals, right = line.partition(" = ")
    if not equals:
        raise ValueError("not an instruction")
    shape, call = _cut_shape(right)
    opcode, _, _ = call.partition("(")
    end = group_end(call, len(opcode))
    inside = call[len(opcode) + 1 : end - 1]
    named = attributes(call[end:])
    metadata = fields(named.get("metadata", ""))
    takes_literal = opcode in ("constant", "parameter")
    return Instruction(
        name=left.removeprefix("ROOT ").strip().lstrip("%"),
        opcode=opcode.strip(),
        shape=parse_shape(shape),
        operands=() if takes_literal else tuple(_names(inside)),
        calls={key: tuple(_names(named[key].strip("{}"))) for key in CALL_ATTRIBUTES if key in named},
        attributes=named,
        op_name=metadata.get("op_name", ""),
        frames=tables.frames(metadata),
        literal=inside if takes_literal else "",
        is_root=left.startswith("ROOT "),
    )


def _cut_shape(text: str) -> tuple[str, str]:
    """A shape ends at the blank after it; blanks inside it stand in brackets or before a comment."""
    end = group_end(text, 0) if text.startswith("(") else text.index(" ")
    return text[:end], text[end:].lstrip()


def _names(text: str) -> list[str]:
    """Names in a list; some printers put each operand's shape before its name."""
    return [part.rsplit(" ", 1)[-1].lstrip("%") for part in split_commas(text)]
