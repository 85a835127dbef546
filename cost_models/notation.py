"""Reads sizes as people write them: meshes (``2x4``, ``data=2,model=4``) and memory (``16GiB``)."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kmgt]?i?b?)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


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


def parse_bytes(text: str) -> int:
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
