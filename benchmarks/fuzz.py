"""Random programs, planned on eight virtual devices and on one: ``python -m benchmarks.fuzz --cases 2000``.

Every case is drawn anew from its number, so ``--seed S --first N --cases 1`` repeats one. Failures go to
standard error, shrunk, with the program as text that runs, the pins, the plan and the graph.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from .fuzzing.workers import Result, run_cases
from .report import report

_PROGRESS_EVERY = 100


@dataclass(frozen=True)
class Row:
    """How the cases with one thing in them did.

    Attributes:
        group: ``all``, ``form``, ``mesh``, ``collective`` or ``primitive``.
        name: of the thing.
        num_cases: cases with it.
        num_mismatches: of them, results differ.
        num_crashes: of them, an error where one device has none.
        num_ill_conditioned: of them, equal only within what the inputs' rounding does.
        num_backend: of them, an error that ``jax.jit`` alone has too, with the plan's outer shardings.
        num_unusable: of them, the program fails on one device already.
        wall_s: seconds of the run, for ``all``.
    """

    group: str
    name: str
    num_cases: int
    num_mismatches: int
    num_crashes: int
    num_ill_conditioned: int
    num_backend: int
    num_unusable: int
    wall_s: float | None = None


def summarize(results: Sequence[Result], wall_s: float) -> list[Row]:
    """Rows for all cases and for each thing that some of them have, commonest first.

    Args:
        results: what the cases did.
        wall_s: seconds they took together.
    """
    rows = [_row("all", "", results, wall_s)]
    groups = {
        "form": lambda r: [r.form] if r.form else [],
        "mesh": lambda r: [r.mesh] if r.mesh else [],
        "collective": lambda r: r.collectives or (["none"] if r.form else []),
        "primitive": lambda r: r.primitives,
    }
    for group, members in groups.items():
        names = {name for r in results for name in members(r)}
        found = [_row(group, n, [r for r in results if n in members(r)]) for n in names]
        rows += sorted(found, key=lambda row: (-row.num_cases, row.name))
    return rows


def _row(group: str, name: str, results: Sequence[Result], wall_s: float | None = None) -> Row:
    verdicts = [r.verdict for r in results]
    return Row(
        group=group,
        name=name,
        num_cases=len(results),
        num_mismatches=verdicts.count("mismatch"),
        num_crashes=verdicts.count("crash"),
        num_ill_conditioned=verdicts.count("ill-conditioned"),
        num_backend=verdicts.count("backend"),
        num_unusable=verdicts.count("unusable"),
        wall_s=wall_s,
    )


def _watched(results: Iterator[Result], num_cases: int) -> Iterator[Result]:
    """The same results; failures and progress are written to standard error as they come."""
    for done, result in enumerate(results, 1):
        if result.report:
            print(f"---- case {result.index}\n{result.report}", file=sys.stderr, flush=True)
        if done % _PROGRESS_EVERY == 0:
            print(f"{done} of {num_cases}", file=sys.stderr, flush=True)
        yield result


def main(
    cases: Annotated[int, typer.Option(help="How many programs.", min=1)] = 2000,
    seed: Annotated[int, typer.Option(help="Which sequence of programs.")] = 0,
    first: Annotated[int, typer.Option(help="Number of the first program.", min=0)] = 0,
    workers: Annotated[int, typer.Option(help="Processes.", min=1)] = 2,
    shrink_s: Annotated[float, typer.Option(help="Seconds to shrink one failure.", min=0)] = 60.0,
    json: Annotated[bool, typer.Option(help="Print JSON.")] = False,
) -> None:
    """Compare planned random programs with jax.jit on one device; exit with 1 if one differs or crashes."""
    start_s = time.monotonic()
    found = run_cases(seed, range(first, first + cases), workers, shrink_s)
    results = list(_watched(found, cases))
    report("Random programs, planned and on one device", summarize(results, time.monotonic() - start_s), json)
    if any(r.verdict in ("mismatch", "crash") for r in results):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
