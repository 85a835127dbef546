"""Where output goes: results to stdout, progress to stderr and only to a person."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, RenderableType

from meshwright.compiler.display import plain_text, plan_renderables

if TYPE_CHECKING:
    from meshwright.compiler.plan import Plan

_PIPE_WIDTH = 100


def print_result(parts: Iterable[RenderableType]) -> None:
    """Prints to stdout: for a person as wide as the terminal, into a pipe as plain text of a fixed width."""
    if sys.stdout.isatty():
        console = Console()
        for part in parts:
            console.print(part)
    else:
        typer.echo(plain_text(parts, _PIPE_WIDTH))


def print_plan(plan: Plan, as_json: bool) -> None:
    """Prints a plan for a person, or as the content of its plan file."""
    if as_json:
        typer.echo(plan_file_text(plan))
    else:
        print_result(plan_renderables(plan))


def plan_file_text(plan: Plan) -> str:
    """What ``plan.save`` writes, so that redirected output is a plan file as well."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "plan.json")
        plan.save(path)
        return path.read_text(encoding="utf-8").strip()


def print_json(value: Any) -> None:
    """Prints a value as indented JSON."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


@contextmanager
def stdout_for_results() -> Iterator[None]:
    """Sends what the user's code and native libraries print to stderr: stdout is for the result alone."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def progress(title: str) -> Iterator[Callable[[str], None] | None]:
    """A spinner with the latest line of progress on stderr, or nothing where stderr is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with console.status(title) as status:
        yield lambda line: status.update(f"{title}: {line}")
