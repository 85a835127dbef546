"""Reads the values of options that the command line writes in its own way: pins, donated arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

_INTEGER = re.compile(r"-?\d+")

PinDim = str | tuple[str, ...] | None


def parse_pin(text: str) -> tuple[str, tuple[PinDim, ...]]:
    """A pytree path or glob and a sharding: ``params/*/kernel=None,model``.

    ``data+model`` puts two axes on one dim. The sharding may also be written as plans print it:
    ``P(None, 'model')`` or ``replicated``.

    Raises:
        ValueError: for other text.
    """
    path, equals, spec = text.partition("=")
    if not equals or not path.strip():
        raise ValueError(f"{text!r} is no pin: write PATH=SHARDING, such as params/*/kernel=None,model")
    return path.strip(), _spec(spec.strip())


def parse_donated(texts: Sequence[str]) -> dict[str, tuple[int, ...] | tuple[str, ...]]:
    """Donated arguments given by position or by name, as options of ``autoparallel``."""
    numbers = tuple(int(text) for text in texts if _INTEGER.fullmatch(text))
    names = tuple(text for text in texts if not _INTEGER.fullmatch(text))
    given = {"donate_argnums": numbers, "donate_argnames": names}
    return {option: value for option, value in given.items() if value}


def _spec(text: str) -> tuple[PinDim, ...]:
    if text == "replicated":
        return ()
    if text.startswith(("P(", "PartitionSpec(")) and text.endswith(")"):
        return _printed_spec(text)
    dims = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"\w+(\+\w+)*", dim) for dim in dims):
        raise ValueError(f"{text!r} is no sharding: write axis names or None for each dim: None,model")
    return tuple(None if dim == "None" else tuple(dim.split("+")) if "+" in dim else dim for dim in dims)


def _printed_spec(text: str) -> tuple[PinDim, ...]:
    inner = text[text.index("(") + 1 : -1].strip().rstrip(",")
    try:
        dims = ast.literal_eval(f"({inner},)" if inner else "()")
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{text!r} is no sharding: write P(None, 'model')") from error
    if not all(dim is None or isinstance(dim, str | tuple) for dim in dims):
        raise ValueError(f"{text!r} holds something that is neither None nor an axis name")
    return dims
