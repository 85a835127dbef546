"""Schema of hardware records: which keys a TOML file must have and what each value may be."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .errors import HardwareRecordError

_DTYPES = ("f64", "f32", "f32_default", "bf16", "f16", "f8", "int8", "vector")
_KINDS = ("cpu", "gpu", "tpu")


def _positive(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:
        raise ValueError(f"must be a positive finite number, not {value!r}")
    return float(value)


def _fraction(value: Any) -> float:
    if _positive(value) > 1:
        raise ValueError(f"must be a fraction in (0, 1], not {value!r}")
    return float(value)


def _count(value: Any) -> int:
    if _positive(value) != int(value):
        raise ValueError(f"must be a positive whole number, not {value!r}")
    return int(value)


def _tile(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) != 3:
        raise ValueError(f"must be three sizes [m, n, k], not {value!r}")
    return tuple(_count(size) for size in value)


def _shapes(value: Any) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list) or not all(isinstance(shape, list) for shape in value):
        raise ValueError(f"must be a list of shapes, not {value!r}")
    return tuple(tuple(_count(size) for size in shape) for shape in value)


_Check = Callable[[Any], Any]

_NUMBERS: dict[str, _Check] = {
    **{f"peak_flops.{dtype}": _positive for dtype in _DTYPES},
    "efficiency.matmul": _fraction,
    "efficiency.vector": _fraction,
    "efficiency.memory": _fraction,
    "memory.total_bytes": _count,
    "memory.usable_bytes": _count,
    "memory.bandwidth": _positive,
    "kernel.floor_s": _positive,
    "kernel.collective_floor_s": _positive,
    "kernel.matmul_tile": _tile,
    **{
        f"link.{level}.{key}": check
        for level in ("inner", "outer")
        for key, check in (("bandwidth", _positive), ("efficiency", _fraction), ("alpha_s", _positive))
    },
    "host.devices": _count,
}
_TORUS: dict[str, _Check] = {
    "torus.rank": _count,
    "torus.wrap_multiple": _count,
    "torus.max_devices": _count,
    "torus.small_shapes": _shapes,
}
_HEAD = ("name", "kind", "version", "title")


def checked_values(document: Mapping[str, Any], path: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a record keyed `section.key`, after checking every one.

    Args:
        document: the parsed TOML.
        path: where it came from, for messages.
        overrides: nested bare numbers that replace those of the record.

    Raises:
        HardwareRecordError: lists every missing key, unknown key, unsourced number and impossible value.
    """
    entries = {key: document[key] for key in _HEAD if key in document}
    entries |= dict(_leaves({key: value for key, value in document.items() if key not in _HEAD}))
    changed = {key: {"value": _bare(value), "source": "override"} for key, value in _leaves(overrides)}
    expected = _NUMBERS | (_TORUS if "torus" in document else {})
    problems = _key_problems(entries, expected) + [
        f"override of unknown key {key}" for key in sorted(changed) if key not in expected
    ]
    values, value_problems = _convert(entries | changed, expected)
    problems += value_problems or _relation_problems(values)
    if problems:
        raise HardwareRecordError(path, problems)
    return values


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, entry) pairs; a table with a `value` or `source` is an entry."""
    for key, entry in table.items():
        nested = isinstance(entry, Mapping) and not ({"value", "source"} & entry.keys())
        if nested:
            yield from _leaves(entry, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", entry


def _bare(value: Any) -> Any:
    return value["value"] if isinstance(value, Mapping) and "value" in value else value


def _key_problems(entries: Mapping[str, Any], expected: Mapping[str, _Check]) -> list[str]:
    wanted = {*expected, *_HEAD}
    missing = [f"missing key {key}" for key in sorted(wanted - entries.keys())]
    return missing + [f"unknown key {key}" for key in sorted(entries.keys() - wanted)]


def _convert(entries: Mapping[str, Any], expected: Mapping[str, _Check]) -> tuple[dict[str, Any], list[str]]:
    values: dict[str, Any] = {key: entries[key] for key in _HEAD if key in entries}
    problems: list[str] = []
    for key, check in expected.items():
        if key not in entries:
            continue
        try:
            values[key] = check(_sourced(entries[key]))
        except ValueError as error:
            problems.append(f"{key} {error}")
    return values, problems + _head_problems(values)


def _sourced(entry: Any) -> Any:
    """The value of an entry that also gives its source."""
    if not isinstance(entry, Mapping) or entry.keys() != {"value", "source"}:
        raise ValueError('must be written {value = ..., source = "..."}')
    if not isinstance(entry["source"], str) or not entry["source"].strip():
        raise ValueError("has no source")
    return entry["value"]


def _head_problems(values: Mapping[str, Any]) -> list[str]:
    texts = ("name", "title")
    problems = [f"{key} must be text" for key in texts if not isinstance(values.get(key, ""), str)]
    if values.get("kind", "cpu") not in _KINDS:
        problems.append(f"kind must be one of {', '.join(_KINDS)}, not {values['kind']!r}")
    version = values.get("version", 1)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        problems.append(f"version must be a positive whole number, not {version!r}")
    return problems


def _relation_problems(values: Mapping[str, Any]) -> list[str]:
    """Problems between values that are each in range."""
    problems = []
    if values.get("memory.usable_bytes", 0) > values.get("memory.total_bytes", math.inf):
        problems.append("memory.usable_bytes exceeds memory.total_bytes")
    rank = values.get("torus.rank")
    if rank and any(len(shape) != rank for shape in values.get("torus.small_shapes", ())):
        problems.append(f"torus.small_shapes must all have {rank} dimensions")
    return problems
