"""Refuses a plan that is for something else, naming the first difference."""

from __future__ import annotations

from ..compiler.errors import PlanMismatchError
from ..compiler.ir import Program
from ..compiler.plan import Plan, program_fingerprint
from ..cost_models.cluster import Cluster


def check_plan(plan: Plan, program: Program, cluster: Cluster | None) -> None:
    """Checks that a plan is for this program and cluster.

    Args:
        plan: the plan.
        program: the program about to run.
        cluster: the cluster the user named, if any.

    Raises:
        PlanMismatchError: with the first argument, result or device count that differs.
    """
    inputs = program.graph.inputs
    planned = {a.path: f"{a.dtype}{list(a.shape)}" for a in plan.arguments}
    found = {v.path: f"{v.type.dtype}{list(v.type.shape)}" for v in inputs}
    for path in [*planned, *found]:
        if planned.get(path) != found.get(path):
            raise PlanMismatchError(path, planned.get(path, "absent"), found.get(path, "absent"))
    for argument, donated in zip(plan.arguments, program.donated, strict=True):
        if argument.donated != donated:
            raise PlanMismatchError(f"donation of {argument.path}", argument.donated, donated)
    fingerprint = program_fingerprint(program)
    if plan.fingerprint != fingerprint:
        raise PlanMismatchError(f"the computation of {plan.program}", plan.fingerprint[:12], fingerprint[:12])
    if cluster is not None and cluster.hash != plan.hardware_hash:
        raise PlanMismatchError("the cluster", plan.cluster, cluster.name)
