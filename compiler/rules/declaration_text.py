"""Reads the einsum-like text of a declared rule: ``"b s h, h d -> b s d"``."""

from __future__ import annotations

import re

from ..errors import ArgumentError

DimNames = tuple[str, ...]
TensorNames = tuple[DimNames, ...]

_TOKEN = re.compile(r"\s*(->|[(),]|_(?!\w)|1(?!\w)|[A-Za-z]\w*)")


def parse_declaration(text: str) -> tuple[tuple[TensorNames, ...], tuple[TensorNames, ...]]:
    """The factor names of operands and results.

    Args:
        text: tensors separated by commas, dims by spaces, operands and results by ``->``. A tensor without
            dims is a scalar.

    Returns:
        For each operand and each result, for each dim, its factor names, major first; ``("_",)`` for a dim
        that must not be split and ``()`` for one of size one.

    Raises:
        ArgumentError: where the text cannot be read, with the position.
    """
    tokens = _tokens(text)
    arrows = [i for i, (token, _) in enumerate(tokens) if token == "->"]
    if len(arrows) != 1:
        at = tokens[arrows[1]][1] if arrows else len(text)
        raise _error(text, at, "one -> must stand between operands and results")
    return _side(text, tokens[: arrows[0]], len(text)), _side(text, tokens[arrows[0] + 1 :], len(text))


def _tokens(text: str) -> list[tuple[str, int]]:
    if not isinstance(text, str):
        raise ArgumentError(f"a rule is text such as 'b s h, h d -> b s d', not {text!r}.")
    found, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise _error(text, len(text) - len(text[at:].lstrip()), "a factor's name, _, 1 or ( ) must stand")
        found.append((match[1], match.start(1)))
        at = match.end()
    return found


def _side(text: str, tokens: list[tuple[str, int]], end: int) -> tuple[TensorNames, ...]:
    """The tensors of one side; no tokens at all are no tensors."""
    if not tokens:
        return ()
    tensors: list[list[tuple[str, int]]] = [[]]
    for token, at in tokens:
        if token == ",":
            tensors.append([])
        else:
            tensors[-1].append((token, at))
    return tuple(_tensor(text, inside, end) for inside in tensors)


def _tensor(text: str, tokens: list[tuple[str, int]], end: int) -> TensorNames:
    dims: list[DimNames] = []
    group: list[str] | None = None
    opened, seen = end, set()
    for token, at in tokens:
        if token == "(":
            if group is not None:
                raise _error(text, at, "parentheses cannot be nested")
            group, opened = [], at
        elif token == ")":
            if group is None:
                raise _error(text, at, "this parenthesis was never opened")
            dims.append(tuple(group))
            group = None
        else:
            _check_name(text, token, at, group, seen)
            if group is None:
                dims.append(() if token == "1" else (token,))
            else:
                group.append(token)
    if group is not None:
        raise _error(text, opened, "this parenthesis is never closed")
    return tuple(dims)


def _check_name(text: str, token: str, at: int, group: list[str] | None, seen: set[str]) -> None:
    if token in ("_", "1"):
        if group is not None:
            raise _error(text, at, f"{token} cannot be a part of a dim")
    elif token in seen:
        raise _error(text, at, f"{token} stands twice in one tensor; no split fits both, so write _ for both")
    seen.add(token)


def _error(text: str, at: int, problem: str) -> ArgumentError:
    return ArgumentError(
        f"the rule {text!r} cannot be read at position {at}: {problem}.\n  {text}\n  {' ' * at}^"
    )
