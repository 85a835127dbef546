"""Rows of a benchmark as a table for people or JSON for programs.

A row is a dataclass; its field names are the columns and the JSON keys. Units live in the names, and decide
how a number is shown.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

_WIDTH = 200  # of a table that goes to a file or a pipe, so that no column is cut


def report(title: str, rows: Sequence[Any], as_json: bool) -> None:
    """Writes rows to standard output, and nothing else.

    Args:
        title: what was measured, shown above the table.
        rows: dataclass instances of one type, at least one.
        as_json: a JSON list of objects instead of a table.
    """
    records = [dataclasses.asdict(row) for row in rows]
    if as_json:
        print(json.dumps(records, indent=1, allow_nan=False))
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    console.print(_table(title, records))


def _table(title: str, records: Sequence[dict[str, Any]]) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name, value in records[0].items():
        is_number = isinstance(value, int | float | None) and not isinstance(value, bool)
        heading = name.removeprefix("num_").replace("_", "\n")
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=True)
    for record in records:
        table.add_row(*(format_cell(name, value) for name, value in record.items()))
    return table


def format_cell(name: str, value: Any) -> str:
    """One value as text.

    Args:
        name: the column; its unit decides the number of digits.
        value: text, number or None (shown as ``-``).
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    if name == "gap":
        return f"{value:.1e}"
    digits = {"mib": 0, "us": 1, "ms": 2, "s": 2}.get(name.rsplit("_", 1)[-1], 3)
    return f"{value:,.{digits}f}"
