"""Shapes of HLO values: arrays, and tuples of them. Layouts are read over."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TypeAlias

from .tokens import group_end, split_commas

_ARRAY = re.compile(r"([a-z]\w*)\[([^\]]*)\]")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class ArrayShape:
    """An array: its element type as HLO spells it (`bf16`, `f8e4m3fn`, `s4`, `token`) and its extents."""

    dtype: str
    dims: tuple[int, ...]

    @property
    def bits(self) -> int:
        """Bits of one element; 0 for what holds no data (`token`, `opaque`)."""
        if self.dtype == "pred":
            return 8
        digits = _DIGITS.search(self.dtype)
        return int(digits[0]) if digits else 0

    @property
    def bytes(self) -> int:
        """Bytes of all elements, those narrower than a byte packed."""
        return -(-math.prod(self.dims) * self.bits // 8)


@dataclass(frozen=True)
class TupleShape:
    """A tuple of arrays and tuples."""

    elements: tuple[Shape, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all elements."""
        return sum(element.bytes for element in self.elements)


Shape: TypeAlias = ArrayShape | TupleShape


def leaves(shape: Shape) -> tuple[ArrayShape, ...]:
    """The arrays of a shape, in order."""
    if isinstance(shape, ArrayShape):
        return (shape,)
    return tuple(leaf for element in shape.elements for leaf in leaves(element))


def parse_shape(text: str) -> Shape:
    """The shape `text` spells. Raises ValueError when it is none."""
    if text.startswith("("):
        inner = text[1 : group_end(text, 0) - 1]
        return TupleShape(tuple(parse_shape(part) for part in split_commas(inner)))
    match = _ARRAY.match(text)
    if match is None:
        raise ValueError(f"no shape: {text[:40]!r}")
    # A bounded dynamic extent is printed `<=8`, one without a bound `?`; the bound is what is allocated.
    dims = (int(_DIGITS.search(part)[0]) if part != "?" else 0 for part in match[2].split(",") if part)  # pyright: ignore[reportOptionalSubscript]
    return ArrayShape(match[1], tuple(dims))
