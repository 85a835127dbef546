"""What the command line exits with, and how errors become that."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import typer
from typer.core import TyperGroup

from meshwright.compiler.errors import InfeasibleError, MeshwrightError, PlanFormatError, PlanMismatchError

WRONG_USAGE, BAD_INPUT, NOTHING_FITS, BAD_PLAN, DIFFERS = 2, 3, 4, 5, 6

EXIT_CODES_HELP = (
    "Exit codes: 0 done; 1 unexpected error; 2 wrong usage; 3 bad input (target, arguments, cluster, mesh, "
    "pins, output file); 4 no plan fits the memory; 5 the plan file is missing, bad or for something else; "
    "6 verify --strict found a difference."
)


def exit_code(error: MeshwrightError) -> int:
    """The exit code of an error a user can act on."""
    if isinstance(error, InfeasibleError):
        return NOTHING_FITS
    return BAD_PLAN if isinstance(error, PlanFormatError | PlanMismatchError) else BAD_INPUT


class ErrorGroup(TyperGroup):
    """The root command: prints a ``MeshwrightError`` as one message and exits with its code.

    Other exceptions are bugs: they keep their traceback and exit with 1.
    """

    def invoke(self, ctx: Any) -> Any:
        """Runs the command line."""
        try:
            return super().invoke(ctx)
        except MeshwrightError as error:
            if ctx.params.get("debug"):
                traceback.print_exception(error)
            else:
                print(f"error: {error}", file=sys.stderr)
            raise typer.Exit(exit_code(error)) from error
