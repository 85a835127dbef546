"""Hardware records as TOML text: a base record with measured numbers in place of its own."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

_DIGITS = 4  # a measurement is not known better
_OF_PEAKS = ": the achieved rate over the fitted efficiency"


def calibrated_document(
    base: Mapping[str, Any], numbers: Mapping[str, float], source: str, title: str
) -> dict[str, Any]:
    """A record with measured numbers, nested as in its file.

    Args:
        base: the document of the base record (`record_document`); it is not changed.
        numbers: fitted values by dotted key.
        source: how they were measured.
        title: title of the new record.

    Returns:
        The base with `value` and `source` of the fitted numbers replaced, and the next version. The name
        stays: it says which device this is, to compilers as well.
    """
    document = {key: _copy(entry, numbers, source, f"{key}.") for key, entry in base.items()}
    return document | {"title": title, "version": base["version"] + 1}


def record_text(document: Mapping[str, Any]) -> str:
    """A record's document as TOML, in the layout of the shipped files.

    Args:
        document: plain values, tables of numbers (each with `value` and `source`) and tables of such tables.
    """
    head = [f"{key} = {_value(value)}" for key, value in document.items() if not isinstance(value, Mapping)]
    tables = [
        "\n".join([f"\n[{name}]", *(f"{key} = {_entry(entry)}" for key, entry in table.items())])
        for name, table in _tables(document, "")
    ]
    return "\n".join([*head, *tables, ""])


def _copy(entry: Any, numbers: Mapping[str, float], source: str, prefix: str) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    if "value" not in entry:
        return {key: _copy(inner, numbers, source, f"{prefix}{key}.") for key, inner in entry.items()}
    key = prefix.removesuffix(".")
    if key not in numbers:
        return dict(entry)
    note = _OF_PEAKS if key.startswith("peak_flops.") or key.endswith(".bandwidth") else ""
    return {"value": _rounded(numbers[key]), "source": f"{source}{note}"}


def _rounded(value: float) -> float:
    return round(value, _DIGITS - 1 - math.floor(math.log10(value)))


def _tables(document: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Tables that hold numbers, by dotted name."""
    for key, table in document.items():
        if not isinstance(table, Mapping):
            continue
        if any("value" in entry for entry in table.values()):
            yield f"{prefix}{key}", table
        else:
            yield from _tables(table, f"{prefix}{key}.")


def _entry(entry: Mapping[str, Any]) -> str:
    return f"{{value = {_value(entry['value'])}, source = {_value(entry['source'])}}}"


def _value(value: Any) -> str:
    """A value as TOML, whose texts, numbers and lists are JSON's as far as records use them."""
    return json.dumps(value, ensure_ascii=False)
