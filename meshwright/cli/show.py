"""``meshwright show``: print a saved plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from meshwright.compiler.errors import PlanFormatError

from .output import print_plan


def show(
    path: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan file.", show_default=False)],
    json: Annotated[bool, typer.Option("--json", help="Print the plan file instead of the summary.")] = False,
) -> None:
    """Print a saved plan.

    Example: meshwright show plan.json
    """
    from meshwright.compiler.plan import Plan

    try:
        loaded = Plan.load(path)
    except OSError as error:
        raise PlanFormatError(f"the plan file {path} cannot be read: {error.strerror or error}") from error
    print_plan(loaded, json)
