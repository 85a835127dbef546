"""Types of values: a shape and an element type, and how many bytes they take."""

from __future__ import annotations

import math
from dataclasses import dataclass

_SHORT = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "complex64": "c64",
    "complex128": "c128",
    "bool": "bool",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint64": "u64",
    "uint32": "u32",
    "uint16": "u16",
    "uint8": "u8",
}


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and element type of a value.

    Attributes:
        shape: size of each dim.
        dtype: numpy's name of the element type, or JAX's for extended ones (``key<fry>``).
        itemsize_bytes: bytes of one element; 0 for tokens and ``float0``.
    """

    shape: tuple[int, ...]
    dtype: str
    itemsize_bytes: int

    @property
    def rank(self) -> int:
        """Number of dims."""
        return len(self.shape)

    @property
    def num_elements(self) -> int:
        """Product of the dim sizes (1 for a scalar)."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of the whole, unsharded array."""
        return self.num_elements * self.itemsize_bytes

    def __str__(self) -> str:
        dims = ",".join(map(str, self.shape))
        return f"{_SHORT.get(self.dtype, self.dtype)}[{dims}]"
