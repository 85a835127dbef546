"""How often a `while` runs its body: as the compiler noted it, else by its condition and step."""

from __future__ import annotations

import re

from .frames import Frame, Value, element, integer, origin
from .module import Instruction

_KNOWN = re.compile(r'"known_trip_count":\s*\{\s*"n":\s*"?(\d+)')
_FLIPPED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "NE": "NE"}


def trip_count(frame: Frame, loop: Instruction) -> int | None:
    """Runs of the body of `loop`, an instruction of `frame`; None where neither source says.

    The second source: the condition compares one carried integer with a bound, the carried integer starts at
    a constant and the body adds a constant to it.
    """
    known = _KNOWN.search(loop.backend_config)
    if known is not None:
        return int(known[1])
    test = _test(frame, loop)
    if test is None:
        return None
    index, direction, bound = test
    start = integer(element(Value(frame, loop).operand(0), index))
    step = _step(frame, loop, index)
    if start is None or not step:
        return None
    return _count(direction, start, bound, step)


def _test(frame: Frame, loop: Instruction) -> tuple[int, str, int] | None:
    """(carried element, direction, bound) of the condition `element direction bound`."""
    (name,) = loop.calls["condition"]
    condition = frame.enter(loop, name)
    compare = origin(Value(condition, condition.computation.root))
    direction = compare.instruction.attributes.get("direction", "")
    if compare.instruction.opcode != "compare" or direction not in _FLIPPED:
        return None
    left, right = compare.operand(0), compare.operand(1)
    for carried, limit, sense in ((left, right, direction), (right, left, _FLIPPED[direction])):
        index, bound = _carried(carried, loop), integer(limit)
        if index is not None and bound is not None:
            return index, sense, bound
    return None


def _carried(value: Value, loop: Instruction) -> int | None:
    """The element of the loop's tuple a value is a copy of."""
    made = origin(value)
    if made.instruction.opcode != "get-tuple-element":
        return None
    holder = origin(made.operand(0))
    is_carried = holder.instruction.opcode == "parameter" and holder.frame.caller is loop
    return made.index if is_carried else None


def _step(frame: Frame, loop: Instruction, index: int) -> int | None:
    """What the body adds to the carried element `index` in one run."""
    (name,) = loop.calls["body"]
    body = frame.enter(loop, name)
    after = element(Value(body, body.computation.root), index)
    if after is None:
        return None
    after = origin(after)
    if after.instruction.opcode not in ("add", "subtract"):
        return None
    operands = (after.operand(0), after.operand(1))
    if after.instruction.opcode == "subtract":
        step = integer(operands[1])
        return -step if step is not None and _carried(operands[0], loop) == index else None
    for before, added in (operands, operands[::-1]):
        if _carried(before, loop) == index:
            return integer(added)
    return None


def _count(direction: str, start: int, bound: int, step: int) -> int | None:
    """Runs of `for (i = start; i direction bound; i += step)`; None when it never ends."""
    if direction in ("GT", "GE"):
        start, bound, step = -start, -bound, -step
    if direction == "NE":
        runs, rest = divmod(bound - start, step)
        return runs if runs >= 0 and rest == 0 else None
    last = bound if direction in ("LE", "GE") else bound - 1
    if start > last:
        return 0
    return (last - start) // step + 1 if step > 0 else None
