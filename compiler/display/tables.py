"""The one look of all tables: no frame, a line under the header, no markup in cells."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text


def plain_table(*headers: str) -> Table:
    """An empty table; give it ``Text`` cells, as brackets in strings would be read as markup.

    Args:
        *headers: header of each column; ``>`` before one aligns the column to the right, ``=`` keeps its
            cells on one line (as does ``>``: a number that wraps cannot be read). Where all are empty there
            is no header line.
    """
    show = any(headers)
    look = box.SIMPLE_HEAD if show else None
    table = Table(box=look, show_header=show, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for header in headers:
        text = Text(header.removeprefix(">").removeprefix("="))
        justify = "right" if header.startswith(">") else "left"
        table.add_column(text, justify=justify, overflow="fold", no_wrap=header.startswith((">", "=")))
    return table
