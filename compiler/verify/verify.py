"""Verifies one plan: export, compile apart, compare."""

from __future__ import annotations

from collections.abc import Sequence

import jax

from ...cost_models.cluster import Cluster
from ..ir import Program
from ..plan import Plan
from .child import Progress, compile_apart
from .compare import compare
from .exported import exported_program
from .report import VerifyReport
from .target import compile_target


def verify_plan(
    program: Program,
    plan: Plan,
    avals: Sequence[jax.ShapeDtypeStruct],
    cluster: Cluster,
    *,
    timing: bool = False,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
) -> VerifyReport:
    """Compiles a planned program for its cluster and compares.

    Args:
        program: the traced program.
        plan: its plan.
        avals: abstract arguments, flat.
        cluster: the plan's cluster.
        timing: compile with the compiler's full effort, for its schedule; without, several times faster.
        time_limit_s: seconds of wall time for the compiler.
        progress: called with a line of text about once a second.

    Raises:
        UnsupportedError: where there is no compiler for the cluster, or none installed, or the program cannot
            leave this process.
        CompilerError: where the compiler does not compile it.
    """
    target = compile_target(cluster)
    exported = exported_program(program, plan, avals, target.platform)
    made = compile_apart(
        exported,
        target,
        plan.mesh,
        program.donated,
        fast=not timing,
        time_limit_s=time_limit_s,
        progress=progress,
    )
    return compare(plan, cluster, made)
