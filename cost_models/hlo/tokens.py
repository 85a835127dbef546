"""Cutting HLO text at its brackets, quotes and commas: the only lexical rules the printed form has."""

from __future__ import annotations

import re
from collections.abc import Iterator

_OPEN, _CLOSE = "([{", ")]}"
# A quoted string is one token (JSON inside it may hold brackets), and so is a comment.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|[()\[\]{},]')
_FIELD = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|[^\s"]+)')


def group_end(text: str, start: int) -> int:
    """Index just after the bracket that closes the one at `start`.

    Raises:
        ValueError: it is never closed.
    """
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token[0] in _OPEN:
            depth += 1
        elif token[0] in _CLOSE:
            depth -= 1
            if depth == 0:
                return token.end()
    raise ValueError(f"{text[start]!r} is not closed")


def split_commas(text: str) -> Iterator[str]:
    """The parts between commas outside brackets and strings, stripped, without comments and empty parts."""
    depth, begin = 0, 0
    for token in _TOKEN.finditer(text):
        if token[0] in _OPEN:
            depth += 1
        elif token[0] in _CLOSE:
            depth -= 1
        elif token[0] == "," and depth == 0:
            yield from _part(text[begin : token.start()])
            begin = token.end()
    yield from _part(text[begin:])


def _part(text: str) -> Iterator[str]:
    bare = re.sub(r"/\*.*?\*/", "", text).strip() if text.lstrip().startswith("/*") else text.strip()
    if bare:
        yield bare


def attributes(text: str) -> dict[str, str]:
    """`a=1, b={x, y}` as a mapping; a key without a value maps to the empty string."""
    found: dict[str, str] = {}
    last = ""
    for part in split_commas(text):
        key, _, value = part.partition("=")
        if key == "device_ids" and last:  # `replica_groups=mesh['a'=2], device_ids=([..]) {'a'}` is one value
            found[last] += f", {part}"
            continue
        last = key
        found[key] = value
    return found


def fields(text: str) -> dict[str, str]:
    """`{a="x y" b=3}`: the blank-separated form of metadata and of the stack-frame tables."""
    return {key: unquote(value.rstrip("}")) for key, value in _FIELD.findall(text)}


def unquote(text: str) -> str:
    """A string without its quotes and escapes; other text as it is."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    return re.sub(r"\\(.)", r"\1", text[1:-1])
