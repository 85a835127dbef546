"""``meshwright show``: print a saved plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .output import print_plan
from .plan_file import load_plan_file


def show(
    path: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan file.", show_default=False)],
    json: Annotated[bool, typer.Option("--json", help="Print the plan file instead of the summary.")] = False,
) -> None:
    """Print a saved plan.

    Example: meshwright show plan.json
    """
    print_plan(load_plan_file(path), json)
