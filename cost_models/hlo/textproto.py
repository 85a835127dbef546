"""Protocol buffers in text form, as far as XLA's dumps use it: one field or bracket per line."""

from __future__ import annotations

from ..errors import HloFormatError
from .tokens import unquote

Message = dict[str, list["Field"]]
Field = str | Message


def parse_textproto(text: str, skip: frozenset[str] = frozenset()) -> Message:
    """The message as lists of values by field name; scalars stay text, strings lose their quotes.

    Args:
        text: the message.
        skip: names of messages to leave out, however deep; dumps are mostly shapes and layouts.

    Raises:
        HloFormatError: a line is neither `name: value`, `name {` nor `}`, or a bracket has no partner.
    """
    top: Message = {}
    stack = [top]
    skipped = 0  # depth inside a message that is left out
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line == "}":
            if skipped:
                skipped -= 1
            elif len(stack) > 1:
                stack.pop()
            else:
                raise HloFormatError("a bracket closes nothing", number, raw)
        elif line.endswith(" {"):
            name = line[:-2]
            if skipped or name in skip:
                skipped += 1
            else:
                inner: Message = {}
                stack[-1].setdefault(name, []).append(inner)
                stack.append(inner)
        elif line and not skipped:
            _add(stack[-1], line, number)
    if len(stack) > 1 or skipped:
        raise HloFormatError("a message is not closed")
    return top


def _add(message: Message, line: str, number: int) -> None:
    name, separator, value = line.partition(": ")
    if not separator:
        raise HloFormatError("not a field of a text proto", number, line)
    message.setdefault(name, []).append(unquote(value))


def messages(message: Message, name: str) -> list[Message]:
    """The messages of a repeated field."""
    return [each for each in message.get(name, []) if isinstance(each, dict)]


def texts(message: Message, name: str) -> list[str]:
    """The scalars of a repeated field, as text."""
    return [each for each in message.get(name, []) if isinstance(each, str)]


def text_of(message: Message, name: str, default: str = "") -> str:
    """A scalar, as text."""
    found = texts(message, name)
    return found[0] if found else default
