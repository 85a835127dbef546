"""Numbers, types and shardings as people read them: ``12.5 ms``, ``1.25 GiB``, ``P(None, 'model')``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from ..plan.plan import Spec

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_DTYPE_FAMILIES = {"bfloat": "bf", "float": "f", "complex": "c", "uint": "u", "int": "i"}
_DTYPE = re.compile(r"(?P<family>bfloat|float|complex|uint|int)(?P<bits>\d+)(?P<rest>.*)")
_KEY_BYTES = 8  # a threefry key is two uint32 words
_FOLDERS = re.compile(r"(?<!\S)\S*[/\\]([^\s/\\]+:\d+)(?!\S)")
_BARS = "▁▂▃▄▅▆▇█"


def format_bytes(size_bytes: float) -> str:
    """Bytes in the binary unit that leaves one to four digits before the point: ``1536`` is ``1.5 KiB``."""
    value, unit = float(size_bytes), 0
    while abs(value) >= 1024 and unit < len(_BYTE_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{_three_digits(value)} {_BYTE_UNITS[unit]}"


def format_seconds(time_s: float) -> str:
    """Seconds in the unit that leaves one to three digits before the point: ``0.0125`` is ``12.5 ms``."""
    if time_s == 0:
        return "0 s"
    scale, unit = next((u for u in _TIME_UNITS if abs(time_s) >= u[0] * 0.9995), _TIME_UNITS[-1])
    return f"{_three_digits(time_s / scale)} {unit}"


def format_percent(fraction: float) -> str:
    """A fraction as a percentage with a digit more where it is below ten: ``0.0123`` is ``1.2 %``."""
    percent = 100 * fraction
    if 0 < percent < 0.05:
        return "<0.1 %"
    return f"{percent:.0f} %" if abs(percent) >= 9.95 or percent == 0 else f"{percent:.1f} %"


def format_type(dtype: str, shape: Sequence[int]) -> str:
    """An array type as JAX prints it: ``bf16[64,128]``."""
    return f"{short_dtype(dtype)}[{','.join(map(str, shape))}]"


def short_dtype(dtype: str) -> str:
    """JAX's short name of an element type: ``float32`` is ``f32``; names of no known family stay."""
    match = _DTYPE.fullmatch(dtype)
    return f"{_DTYPE_FAMILIES[match['family']]}{match['bits']}{match['rest']}" if match else dtype


def itemsize_bytes(dtype: str) -> int:
    """Bytes of one element by the type's name; sub-byte types count as a whole byte."""
    match = _DTYPE.fullmatch(dtype)
    if match:
        return -(-int(match["bits"]) // 8)
    return _KEY_BYTES if dtype.startswith("key<") else 1


def format_spec(spec: Spec) -> str:
    """A sharding as ``PartitionSpec`` without trailing ``None``; ``replicated`` where nothing is split."""
    last = max((d for d, axes in enumerate(spec) if axes), default=-1)
    if last < 0:
        return "replicated"
    return f"P({', '.join(_dim(axes) for axes in spec[: last + 1])})"


def device_bytes(shape: Sequence[int], dtype: str, spec: Spec, axis_sizes: Mapping[str, int]) -> int:
    """Bytes of one device's part of an array.

    Args:
        shape: dim sizes of the whole array.
        dtype: its element type.
        spec: its sharding.
        axis_sizes: devices along each mesh axis.
    """
    parts = [math.prod(axis_sizes[axis] for axis in axes) for axes in spec]
    parts += [1] * (len(shape) - len(parts))
    return math.prod(-(-size // part) for size, part in zip(shape, parts, strict=True)) * itemsize_bytes(
        dtype
    )


def short_sources(text: str) -> str:
    """Source positions without their folders: ``add at /src/model.py:7`` is ``add at model.py:7``."""
    return _FOLDERS.sub(r"\1", text)


def short_path(path: str, width: int = 32) -> str:
    """A pytree path that is wider without its middle: ``state/.../up/kernel:f32[128,512]``."""
    first, *rest = path.split("/")
    short = path
    while len(short) > width and len(rest) > 1:
        rest = rest[1:]
        short = "/".join((first, "...", *rest))
    return short


def sparkline(values: Sequence[float], width: int) -> str:
    """A curve from zero up, as block characters; each shows the most of its stretch."""
    count = min(width, len(values))
    top = max(values, default=0)
    if count == 0 or top <= 0:
        return ""
    edges = [i * len(values) // count for i in range(count + 1)]
    peaks = [max(values[start:stop]) for start, stop in zip(edges, edges[1:], strict=False)]
    return "".join(_BARS[min(len(_BARS) - 1, int(len(_BARS) * peak / top))] for peak in peaks)


def _dim(axes: Sequence[str]) -> str:
    if len(axes) > 1:
        return f"({', '.join(map(repr, axes))})"
    return repr(axes[0]) if axes else "None"


def _three_digits(value: float) -> str:
    """About three significant digits, no exponent, no trailing zeros after the point."""
    decimals = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
