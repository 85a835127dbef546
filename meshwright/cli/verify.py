"""``meshwright verify``: compile a saved plan's program for its cluster, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from .exit_codes import DIFFERS
from .output import print_json, print_result, progress, stdout_for_results
from .plan_file import load_plan_file
from .platform import plan_on_cpu
from .targets import load_arguments, load_function

if TYPE_CHECKING:
    from meshwright.compiler.plan import Plan
    from meshwright.compiler.verify import VerifyReport

_PLAN = "A plan file."
_TARGET = "The function it was made for: package.module:function or path/file.py:function."
_ARGS = "A function that returns the arguments: a tuple, or a single one. ShapeDtypeStructs are enough."
_CLUSTER = "The plan's cluster, where its name does not say: FILE.toml."
_STRICT = "Exit with 6 where anything differs by more than the tolerances."
_TIMING = "Also read the compiler's schedule: full effort, several times as long."
_LIMIT = "Seconds of wall time for the compiler."
_JSON = "Print the report as JSON."


def verify(
    plan: Annotated[Path, Argument(metavar="PLAN", help=_PLAN, show_default=False)],
    target: Annotated[str, Argument(help=_TARGET, show_default=False)],
    args: Annotated[str, Option("--args", metavar="TARGET", help=_ARGS)],
    cluster: Annotated[str | None, Option("--cluster", "-c", help=_CLUSTER)] = None,
    strict: Annotated[bool, Option("--strict", help=_STRICT)] = False,
    timing: Annotated[bool, Option("--timing", help=_TIMING)] = False,
    time_limit: Annotated[float | None, Option(min=0.1, help=_LIMIT)] = None,
    json: Annotated[bool, Option("--json", help=_JSON)] = False,
) -> None:
    """Compile a plan's program for its cluster, on any machine, and compare with what was planned.

    Example: meshwright verify plan.json examples/gpt.py:train_step --args examples/gpt.py:example_args
    """
    plan_on_cpu()
    loaded = load_plan_file(plan)
    with stdout_for_results():
        report = _verify(loaded, target, args, cluster, timing, time_limit)
    _print(report, json)
    if strict and not report.holds:
        raise typer.Exit(DIFFERS)


def _verify(
    plan: Plan, target: str, args: str, cluster: str | None, timing: bool, time_limit: float | None
) -> VerifyReport:
    import meshwright as mw

    fun, arguments = load_function(target), load_arguments(args)
    with progress(f"verifying {target} for {plan.cluster}") as report:
        return mw.verify(
            plan,
            fun,
            *arguments,
            cluster=cluster,
            timing=timing,
            time_limit_s=time_limit,
            progress=report,
        )


def _print(report: VerifyReport, as_json: bool) -> None:
    if as_json:
        import msgspec

        judged = {"holds": report.holds, "problems": report.problems}
        print_json({**msgspec.to_builtins(report), **judged})
    else:
        from meshwright.compiler.display.verification import report_renderables

        print_result(report_renderables(report))
