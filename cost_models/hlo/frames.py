"""Activations of computations, and where a value inside one really comes from.

A computation may be called from several places; a `Frame` is one of its activations, and knows its calling
instruction. Through frames a value is followed to its origin: out of fusions and calls, through tuples,
and into loops for the elements that a loop carries unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

from .module import Computation, HloModule, Instruction

# The result is the operand, as far as an integer's value goes.
_TRANSPARENT = frozenset(
    {"copy", "copy-start", "copy-done", "bitcast", "convert", "reshape", "optimization-barrier", "broadcast"}
)
_CALLERS = ("fusion", "call", "custom-call", "async")


@dataclass(frozen=True)
class Frame:
    """One activation of a computation.

    Attributes:
        module: the module.
        computation: what runs.
        caller: the instruction that runs it, None for the entry.
        parent: the frame `caller` stands in.
    """

    module: HloModule
    computation: Computation
    caller: Instruction | None = None
    parent: Frame | None = None

    def enter(self, caller: Instruction, name: str) -> Frame:
        """The activation of computation `name` by `caller`, an instruction of this frame."""
        return Frame(self.module, self.module.computations[name], caller, self)


@dataclass(frozen=True)
class Value:
    """The result of an instruction in a frame."""

    frame: Frame
    instruction: Instruction

    def operand(self, index: int) -> Value:
        """What the instruction reads as operand `index`."""
        return Value(self.frame, self.frame.computation.by_name[self.instruction.operands[index]])

    @property
    def index(self) -> int:
        """The element a `get-tuple-element` takes."""
        return int(self.instruction.attributes["index"])


def is_caller(opcode: str) -> bool:
    """It runs a computation whose parameter k is its operand k: a fusion or call, or the start of one.

    A wrapped instruction that runs asynchronously is printed as its opcode with `-start`: TPU compilers hide
    collectives for the SparseCore in `call-start`.
    """
    return opcode.removesuffix("-start") in _CALLERS


def origin(value: Value) -> Value:
    """The value `value` is a plain copy of, followed as far as it goes."""
    while (source := _source(value)) is not None:
        value = source
    return value


def element(value: Value, index: int) -> Value | None:
    """Element `index` of a tuple, or None when it changes on the way or its maker is not seen."""
    made = origin(value)
    loop = _loop_of(made)
    if made.instruction.opcode == "tuple":
        return made.operand(index)
    if loop is not None and _carries_unchanged(loop, index):
        return element(loop.operand(0), index)
    return None


def integer(value: Value | None) -> int | None:
    """The number a value is, when it comes from an integer constant."""
    if value is None:
        return None
    made = origin(value).instruction
    if made.opcode != "constant":
        return None
    try:
        return int(made.literal)
    except ValueError:
        return None


def _source(value: Value) -> Value | None:
    frame, instruction = value.frame, value.instruction
    if instruction.opcode in _TRANSPARENT and instruction.operands:
        return value.operand(0)
    if instruction.opcode == "get-tuple-element":
        return element(value.operand(0), value.index)
    if instruction.opcode in ("fusion", "call"):
        (name,) = instruction.calls.get("calls") or instruction.calls["to_apply"]
        inner = frame.enter(instruction, name)
        return Value(inner, inner.computation.root)
    if instruction.opcode == "parameter" and frame.caller and is_caller(frame.caller.opcode):
        return Value(frame.parent or frame, frame.caller).operand(int(instruction.literal))
    return None


def _loop_of(value: Value) -> Value | None:
    """The loop whose carried tuple a value is: its result, or the parameter of its body or condition."""
    frame, instruction = value.frame, value.instruction
    if instruction.opcode == "while":
        return value
    if instruction.opcode == "parameter" and frame.parent and frame.caller and frame.caller.opcode == "while":
        return Value(frame.parent, frame.caller)
    return None


def _carries_unchanged(loop: Value, index: int) -> bool:
    """The loop's body hands element `index` on as it got it."""
    (name,) = loop.instruction.calls["body"]
    body = loop.frame.enter(loop.instruction, name)
    root = Value(body, body.computation.root)
    if root.instruction.opcode != "tuple":
        return False
    given = root.operand(index)
    while given.instruction.opcode in _TRANSPARENT:
        given = given.operand(0)
    return (
        given.instruction.opcode == "get-tuple-element"
        and given.index == index
        and given.operand(0).instruction.opcode == "parameter"
    )
