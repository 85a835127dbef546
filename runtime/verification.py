"""``mw.verify``: a plan beside what XLA compiles from it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from ..compiler.errors import ArgumentError, UnknownClusterError
from ..compiler.plan import Plan
from ..compiler.verify import VerifyReport, verify_plan
from ..cost_models.cluster import Cluster
from .autoparallel import AutoParallel, autoparallel
from .given_plan import given_plan
from .plan_check import check_cluster


def verify(
    plan: Plan | str | os.PathLike[str],
    fun: Callable[..., Any],
    *args: Any,
    fun_kwargs: Mapping[str, Any] | None = None,
    cluster: str | Cluster | None = None,
    timing: bool = False,
    time_limit_s: float | None = None,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> VerifyReport:
    """Compiles the planned program with XLA's compiler for the plan's cluster, and compares.

    No device is needed: ``pip install 'meshwright[tpu]'`` brings the compiler for TPUs, ``'meshwright[gpu]'``
    that for GPUs. It runs in a process of its own; what it made is kept, and the same program is not
    compiled twice.

    Args:
        plan: the plan, or its file.
        fun: the function it was made for, plain or decorated.
        *args: its arguments; ``jax.ShapeDtypeStruct``s are enough.
        fun_kwargs: its keyword arguments.
        cluster: what the plan is for, where its name does not say (a cluster from a TOML file).
        timing: also read the compiler's schedule; this takes its full effort, several times as long.
        time_limit_s: seconds of wall time for the compiler.
        progress: called with a line of text about once a second.
        **options: ``static_argnums`` and ``static_argnames``, as for ``autoparallel``. What is donated stands
            in the plan.

    Returns:
        The report: ``str`` of it prints, ``holds`` and ``problems`` judge.

    Raises:
        ArgumentError: where there is no such plan, or its cluster's name alone does not say what it is.
        PlanMismatchError: where the plan is of another program or cluster.
        UnsupportedError: where there is no compiler, with what installs it.
        CompilerError: where it does not compile the program.
    """
    loaded = given_plan(plan, {})
    if loaded is None:
        raise ArgumentError("plan=None is no plan: give a Plan, or the path of a plan file.")
    target = plan_cluster(loaded, cluster)
    planner = _planner(loaded, fun, args, options)
    program, _, avals = planner.planned_program(*args, **(fun_kwargs or {}))
    return verify_plan(
        program, loaded, avals, target, timing=timing, time_limit_s=time_limit_s, progress=progress
    )


def plan_cluster(plan: Plan, given: str | Cluster | None) -> Cluster:
    """The cluster of a plan, by its name or as given.

    Raises:
        ArgumentError: where the name alone does not say.
        PlanMismatchError: where the cluster is not the plan's.
    """
    try:
        cluster = Cluster.load(plan.cluster if given is None else given)
    except UnknownClusterError as error:
        if given is not None:
            raise
        raise ArgumentError(
            f"The plan is for {plan.cluster}, which is no cluster's name: pass cluster= (the command line: "
            "--cluster) with the file that describes it."
        ) from error
    check_cluster(plan, cluster)
    return cluster


def _planner(
    plan: Plan, fun: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> AutoParallel:
    if isinstance(fun, AutoParallel):
        return fun.with_options(plan=plan, cluster=None, **options)
    return autoparallel(fun, plan=plan, donate_argnums=_donated(plan, args), **options)


def _donated(plan: Plan, args: Sequence[Any]) -> tuple[int, ...]:
    """Positional arguments all of whose arrays are donated in the plan."""
    found, first = [], 0
    for position, argument in enumerate(args):
        count = len(jax.tree.leaves(argument))
        given = [array.donated for array in plan.arguments[first : first + count]]
        if given and all(given):
            found.append(position)
        first += count
    return tuple(found)
