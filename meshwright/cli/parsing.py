"""Reads the values of options: meshes, memory budgets, pins, donated arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kmgt]?i?b?)", re.IGNORECASE)
_INTEGER = re.compile(r"-?\d+")
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}

PinDim = str | tuple[str, ...] | None


def parse_mesh(text: str) -> tuple[int, ...] | dict[str, int]:
    """``2x4`` as sizes, ``data=2,model=4`` as sizes by axis name.

    Raises:
        ValueError: for other text.
    """
    if re.fullmatch(r"\d+(x\d+)*", text):
        return tuple(int(size) for size in text.split("x"))
    pairs = [re.fullmatch(r"\s*(\w+)\s*=\s*(\d+)\s*", part) for part in text.split(",")]
    names = [pair[1] for pair in pairs if pair]
    if len(names) != len(pairs) or len(set(names)) != len(names):
        raise ValueError(f"{text!r} is no mesh: write 2x4, or data=2,model=4 with distinct names")
    return {pair[1]: int(pair[2]) for pair in pairs if pair}


def parse_budget(text: str) -> int:
    """Bytes of ``16GiB``, ``500 MB`` or a plain number; ``Ki`` counts 1024, ``K`` 1000.

    Raises:
        ValueError: for other text.
    """
    match = _SIZE.fullmatch(text.strip())
    if not match or not float(match["number"]):
        raise ValueError(f"{text!r} is no amount of memory: write 16GiB, 500MB or a number of bytes")
    unit = match["unit"].lower().removesuffix("b")
    base = 1024 if unit.endswith("i") else 1000
    return int(float(match["number"]) * base ** _POWERS[unit.removesuffix("i")])


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
