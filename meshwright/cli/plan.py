"""``meshwright plan``: plan a function for a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from meshwright.compiler.errors import ArgumentError
from meshwright.cost_models.notation import parse_bytes, parse_mesh

from .output import print_plan, progress, stdout_for_results
from .parsing import parse_donated, parse_pin
from .platform import plan_on_cpu
from .targets import load_arguments, load_function

if TYPE_CHECKING:
    from meshwright.compiler.plan import Plan

_TARGET = "The function: package.module:function or path/file.py:function."
_ARGS = "A function that returns the arguments: a tuple, or a single one. ShapeDtypeStructs are enough."
_CLUSTER = "What to plan for: h100:2x8, v5e:4x4, cpu:8, FILE.toml."
_MESH = "The logical mesh: 2x4, or data=2,model=4. Left out, all are tried."
_BUDGET = "Memory of one device: 16GiB. Left out, the cluster's."
_PIN = "Fix the sharding of arguments: 'params/*/kernel=None,model'. May be repeated."
_DONATE = "A donated argument, by number or name. May be repeated."
_EFFORT = "0 is fast, 3 is thorough. Left out, 2."
_TIME = "Seconds of wall time for the whole search; then the best plan so far is taken."
_TEMPLATE = (
    "Keep to an expert's plan: data, zero, fsdp, tensor, tensor+sequence, sequence, expert, data+fsdp, "
    "data+tensor, data+tensor+sequence, data+sequence, data+expert, zero+tensor, zero+tensor+sequence, "
    "fsdp+tensor, fsdp+tensor+sequence, fsdp+sequence, fsdp+expert, expert+tensor, 2d, 2.5d, 3d, "
    "data+expert+tensor, fsdp+expert+tensor. Left out, the cheapest plan."
)
_JSON = "Print the plan file instead of the summary."


def plan(
    target: Annotated[str, Argument(help=_TARGET)],
    args: Annotated[str, Option("--args", metavar="TARGET", help=_ARGS)],
    cluster: Annotated[str, Option("--cluster", "-c", help=_CLUSTER)],
    output: Annotated[Path | None, Option("--output", "-o", help="Save the plan to this file.")] = None,
    mesh: Annotated[str | None, Option(help=_MESH)] = None,
    budget: Annotated[str | None, Option(help=_BUDGET)] = None,
    pin: Annotated[list[str] | None, Option(metavar="PATH=SHARDING", help=_PIN)] = None,
    donate: Annotated[list[str] | None, Option(metavar="ARGUMENT", help=_DONATE)] = None,
    effort: Annotated[int | None, Option(min=0, max=3, help=_EFFORT)] = None,
    time_limit: Annotated[float | None, Option(help=_TIME)] = None,
    template: Annotated[str | None, Option(metavar="NAME", help=_TEMPLATE)] = None,
    json: Annotated[bool, Option("--json", help=_JSON)] = False,
) -> None:
    """Plan a function for a cluster and print the plan.

    Example: meshwright plan examples/gpt.py:train_step --args examples/gpt.py:example_args -c h100:1x8
    """
    given = {
        "effort": effort,
        "time_limit_s": time_limit,
        "template": template,
        **parse_donated(donate or ()),
    }
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if mesh is not None:
        options["mesh"] = _read(parse_mesh, mesh, "--mesh")
    if budget is not None:
        options["budget_bytes"] = _read(parse_bytes, budget, "--budget")
    if output is not None and not output.absolute().parent.is_dir():
        raise ArgumentError(f"the plan cannot be saved to {output}: no such folder")
    pins = dict(_read(parse_pin, text, "--pin") for text in pin or ())
    plan_on_cpu()
    with stdout_for_results():
        made = _make_plan(target, args, cluster, pins, options)
    if output is not None:
        _save(made, output)
    print_plan(made, json)


def _read(parse: Any, text: str, option: str) -> Any:
    """An option's value; where it is malformed, a usage error that names the option."""
    try:
        return parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def _make_plan(target: str, args: str, cluster: str, pins: dict[str, Any], options: dict[str, Any]) -> Plan:
    # Late: these import jax, which must see JAX_PLATFORMS.
    import jax

    import meshwright as mw

    # Before the target is run: a wrong name should not wait for the imports of a large model.
    loaded = mw.Cluster.load(cluster)
    if pins:
        options["pins"] = {path: jax.sharding.PartitionSpec(*spec) for path, spec in pins.items()}
    fun, arguments = load_function(target), load_arguments(args)
    with progress(f"planning {target} for {cluster}") as report:
        return mw.plan(fun, *arguments, cluster=loaded, progress=report, **options)


def _save(made: Plan, path: Path) -> None:
    try:
        made.save(path)
    except OSError as error:
        raise ArgumentError(f"the plan cannot be saved to {path}: {error.strerror or error}") from error
