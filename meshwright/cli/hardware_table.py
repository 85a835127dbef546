"""One hardware record for a person: every number with its unit and its source."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from meshwright.compiler.display.tables import plain_table
from meshwright.compiler.display.units import format_bytes, format_seconds
from meshwright.cost_models import hardware_record
from meshwright.cost_models.errors import UnknownClusterError

from .output import print_json, print_result

_DECIMAL = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, ""))


def describe_hardware(name: str, as_json: bool) -> None:
    """Prints a record.

    Args:
        name: a hardware name; what follows a colon (``h100:2x8``) is ignored.
        as_json: whether to print JSON.

    Raises:
        UnknownClusterError: where no shipped record has the name.
    """
    record = hardware_record.load_hardware(_known(name.partition(":")[0].lower()))
    entries = record_entries(hardware_record.record_document(record.name))
    if as_json:
        print_json(
            {"name": record.name, "title": record.title, "version": record.version, "numbers": entries}
        )
        return
    table = plain_table("key", ">value", "source")
    for key, entry in entries.items():
        table.add_row(Text(key), Text(format_number(key, entry["value"])), Text(entry["source"]))
    heading = (
        f"{record.title} ({record.name}, {record.kind}, version {record.version}, hash {record.hash[:12]})\n"
    )
    print_result([Text(heading, style="bold"), table])


def _known(name: str) -> str:
    names = hardware_record.hardware_names()
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.4) or names
        raise UnknownClusterError(name, "no hardware has this name", near)
    return name


def record_entries(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Numbers of a record's document by dotted key, each with ``value`` and ``source``."""
    return dict(_leaves(document, ""))


def _leaves(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, entry in table.items():
        if isinstance(entry, dict) and "value" in entry:
            yield f"{prefix}{key}", entry
        elif isinstance(entry, dict):
            yield from _leaves(entry, f"{prefix}{key}.")


def format_number(key: str, value: Any) -> str:
    """A number of a record with the unit that its dotted key implies."""
    if key.startswith("peak_flops."):
        return f"{_decimal(value)}FLOP/s"
    if key.endswith("bandwidth"):
        return f"{_decimal(value)}B/s"
    if key.endswith("_bytes"):
        return format_bytes(value)
    if key.endswith("_s"):
        return format_seconds(value)
    if key.endswith("small_shapes"):
        return " ".join("x".join(map(str, shape)) for shape in value)
    if isinstance(value, list):
        return " x ".join(map(str, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _decimal(value: float) -> str:
    """About four digits and a decimal prefix: ``989.5 T``."""
    scale, prefix = next((u for u in _DECIMAL if value >= u[0]), _DECIMAL[-1])
    return f"{value / scale:.4g} {prefix}"
