"""Renders ``rich`` parts to plain text that is the same on every machine."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console, RenderableType


def plain_text(parts: Iterable[RenderableType], width: int) -> str:
    """Text of the parts without colours or trailing blanks; cells too wide for the width are wrapped."""
    # An empty environment: COLUMNS, NO_COLOR and the like must not change the text.
    console = Console(
        file=io.StringIO(), width=width, no_color=True, color_system=None, force_terminal=False, _environ={}
    )
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    return "\n".join(line.rstrip() for line in captured.get().strip("\n").split("\n"))
