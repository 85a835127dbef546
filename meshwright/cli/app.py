"""The command line's application: commands, global options, errors to exit codes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .calibrate import calibrate
from .clusters import clusters
from .compare import compare
from .exit_codes import EXIT_CODES_HELP, WRONG_USAGE, ErrorGroup
from .ops import ops
from .plan import plan
from .show import show
from .verify import verify

app = typer.Typer(
    name="meshwright",
    cls=ErrorGroup,
    help="Plan a single-device JAX program for a mesh of accelerators. No accelerator is needed.",
    epilog=EXIT_CODES_HELP,
    invoke_without_command=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(plan)
app.command()(show)
app.command()(verify)
app.command()(clusters)
app.command()(ops)
app.command()(calibrate)
app.command()(compare)


def _print_version(wanted: bool) -> None:
    if wanted:
        from meshwright import __version__

        typer.echo(f"meshwright {__version__}")
        raise typer.Exit


_VERSION = typer.Option(
    "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
)
_DEBUG = typer.Option("--debug", help="Print tracebacks of errors: meshwright --debug plan ...")


@app.callback()
def _root(
    ctx: typer.Context,
    version: Annotated[bool, _VERSION] = False,
    debug: Annotated[bool, _DEBUG] = False,
) -> None:
    """Global options; ``ErrorGroup`` reads ``--debug``."""
    if ctx.invoked_subcommand is None:
        # Not no_args_is_help, which exits with another code in each version of click.
        typer.echo(ctx.get_help())
        raise typer.Exit(WRONG_USAGE)


def main() -> None:
    """Runs the command line."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal without Unicode shows "?" instead of failing half-way.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    app(prog_name="meshwright")
