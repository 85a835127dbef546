"""Refuses a plan that is for something else, naming the first difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..compiler.errors import PlanMismatchError
from ..compiler.ir import Program
from ..compiler.plan import Plan, program_fingerprint
from ..cost_models.cluster import Cluster


def check_arguments(plan: Plan, paths: Sequence[str], avals: Sequence[Any]) -> None:
    """Checks that arguments are those of a plan, before the program is traced on them.

    Args:
        plan: the plan.
        paths: pytree path of each argument leaf.
        avals: its shape and element type.

    Raises:
        PlanMismatchError: with the first argument that differs.
    """
    found = {path: f"{a.dtype}{list(a.shape)}" for path, a in zip(paths, avals, strict=True)}
    planned = {a.path: f"{a.dtype}{list(a.shape)}" for a in plan.arguments}
    for path in [*planned, *found]:
        if planned.get(path) != found.get(path):
            raise PlanMismatchError(path, planned.get(path, "absent"), found.get(path, "absent"))


def check_plan(plan: Plan, program: Program, cluster: Cluster | None) -> None:
    """Checks that a plan is for this program and cluster; its arguments are those of the plan already.

    Args:
        plan: the plan.
        program: the program about to run.
        cluster: the cluster the user named, if any.

    Raises:
        PlanMismatchError: with what differs first: donation, the computation, or the cluster.
    """
    for argument, donated in zip(plan.arguments, program.donated, strict=True):
        if argument.donated != donated:
            raise PlanMismatchError(f"donation of {argument.path}", argument.donated, donated)
    fingerprint = program_fingerprint(program)
    if plan.fingerprint != fingerprint:
        raise PlanMismatchError(f"the computation of {plan.program}", plan.fingerprint[:12], fingerprint[:12])
    if cluster is not None:
        check_cluster(plan, cluster)


def check_cluster(plan: Plan, cluster: Cluster) -> None:
    """Checks that a plan was made for this hardware, with the same numbers.

    Raises:
        PlanMismatchError: where it was not.
    """
    if cluster.hash != plan.hardware_hash:
        raise PlanMismatchError("the cluster", plan.cluster, cluster.name)
