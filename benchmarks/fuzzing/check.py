"""Runs a case planned and on one device, and says what came of it."""

from __future__ import annotations

import re
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

import meshwright as mw
from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.ir import format_program, walk_nodes
from meshwright.compiler.lowering import device_mesh
from meshwright.compiler.lowering.placement import named_sharding
from meshwright.compiler.planner import PlanOptions, plan_program
from meshwright.compiler.rules import RuleBook

from .cases import Case
from .compare import BFLOAT16_RTOL, RTOL, Reference, numbers

_EAGER = Path(__file__).parents[2] / "tests" / "numerics" / "eager.toml"


class Verdict(StrEnum):
    """What came of a case."""

    EQUAL = "equal"
    ILL_CONDITIONED = "ill-conditioned"
    MISMATCH = "mismatch"
    CRASH = "crash"
    BACKEND = "backend"  # an error that jax.jit alone has too, with the plan's outer shardings
    UNUSABLE = "unusable"  # the program fails on one device

    @property
    def is_failure(self) -> bool:
        """Whether the project is at fault."""
        return self in (Verdict.MISMATCH, Verdict.CRASH)


@dataclass
class Outcome:
    """What came of a case, with what it covered.

    Attributes:
        verdict: the outcome.
        reason: the first difference, or the error.
        symptom: short form of the reason, equal for failures that look alike.
        trace: the traceback of a crash.
        primitives: operations of the program as traced.
        collectives: kinds that the plan has.
        ir: the program's graph as text; empty until traced.
        plan: the plan; None until planned.
        is_alike: whether ``jax.jit`` alone fails in the same way, see ``fails_plainly``.
    """

    verdict: Verdict = Verdict.EQUAL
    reason: str = ""
    symptom: str = ""
    trace: str = ""
    primitives: frozenset[str] = frozenset()
    collectives: frozenset[str] = frozenset()
    ir: str = ""
    plan: mw.Plan | None = None
    is_alike: bool = False


class WrongSharding(Exception):
    """A result or an argument does not lie as the plan or a pin says."""


@dataclass
class Checker:
    """Runs cases, which share the factor rules."""

    rules: RuleBook = field(default_factory=RuleBook)

    def check(self, case: Case) -> Outcome:
        """Runs one case; every error ends up in the outcome.

        Args:
            case: what to run; the process must have as many devices as its mesh.
        """
        outcome = Outcome()
        try:
            reference = make_reference(case)
        except Exception as error:
            _fail(outcome, Verdict.UNUSABLE, error)
            return outcome
        try:
            self.plan(case, outcome)
            _judge(outcome, reference, _run_planned(case, outcome.plan))
        except Exception as error:
            _fail(outcome, Verdict.CRASH, error)
        if outcome.verdict.is_failure and outcome.plan:
            outcome.is_alike = fails_plainly(case, outcome.plan, outcome.verdict)
        # Wrong numbers stay a failure, whoever makes them: the plan chose the layouts.
        if outcome.is_alike and outcome.verdict == Verdict.CRASH:
            outcome.verdict = Verdict.BACKEND
        return outcome

    def plan(self, case: Case, outcome: Outcome) -> mw.Plan:
        """Traces and plans a case, and notes what it covers.

        Args:
            case: what to plan.
            outcome: gets the graph, the plan and what they contain.
        """
        program = trace_program(case.program.function(), TraceOptions(), case.arguments(), {})
        outcome.primitives = frozenset(node.op for node in walk_nodes(program.graph))
        outcome.ir = format_program(program)
        options = PlanOptions(mesh=case.mesh_axes, pins=case.partition_specs)
        outcome.plan = plan_program(program, eager_cluster(case.num_devices), options, self.rules)
        outcome.collectives = frozenset(c.kind for c in outcome.plan.collectives)
        return outcome.plan


def make_reference(case: Case) -> Reference:
    """The case on one device."""
    function, arguments = jax.jit(case.program.function()), case.arguments()
    rtol = BFLOAT16_RTOL if "bfloat16" in str(case.program) else RTOL
    return Reference(function, arguments, numbers(function(*arguments)), rtol)


@cache
def eager_cluster(num_devices: int) -> mw.Cluster:
    """The tests' cluster on which splitting always pays, with a number of devices."""
    text = re.sub(r"shape = \[\d+\]", f"shape = [{num_devices}]", _EAGER.read_text())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"eager_{num_devices}.toml"
        path.write_text(text)
        return mw.Cluster.load(path)


def fails_plainly(case: Case, plan: mw.Plan, verdict: Verdict) -> bool:
    """Whether ``jax.jit`` alone, with the plan's shardings of arguments and results, fails in the same way.

    Args:
        case: what failed.
        plan: its plan.
        verdict: how it failed.
    """
    outcome = Outcome()
    try:
        _judge(outcome, make_reference(case), run_plainly(case, plan))
    except Exception as error:
        _fail(outcome, Verdict.CRASH, error)
    return outcome.verdict == verdict


def run_plainly(case: Case, plan: mw.Plan) -> list[np.ndarray]:
    """The case under ``jax.jit`` with the shardings of a plan's arguments and results, and nothing inside."""
    function, arguments, mesh = case.program.function(), case.arguments(), device_mesh(plan.mesh)
    inputs = tuple(named_sharding(mesh, a.spec) for a in plan.arguments)
    results = [named_sharding(mesh, r.spec) for r in plan.results]
    structure = jax.tree.structure(jax.eval_shape(function, *arguments))
    plain = jax.jit(function, in_shardings=inputs, out_shardings=jax.tree.unflatten(structure, results))
    return numbers(plain(*arguments))


def _run_planned(case: Case, plan: mw.Plan | None) -> list[np.ndarray]:
    cluster = eager_cluster(case.num_devices)
    planned = mw.autoparallel(case.program.function(), cluster=cluster, plan=plan)
    leaves = jax.tree.leaves(planned(*case.arguments()))
    _check_shardings(case, planned.plan(*case.arguments()), leaves)
    return numbers(leaves)


def _check_shardings(case: Case, plan: mw.Plan, leaves: Sequence[Any]) -> None:
    mesh = device_mesh(plan.mesh)
    for name, spec in case.pins:
        if plan.shardings[name] != spec:
            raise WrongSharding(f"{name} is pinned to {spec}, the plan has {plan.shardings[name]}")
    for i, (leaf, result) in enumerate(zip(leaves, plan.results, strict=True)):
        wanted = named_sharding(mesh, result.spec)
        if not leaf.sharding.is_equivalent_to(wanted, leaf.ndim):
            raise WrongSharding(f"result {i} lies as {leaf.sharding}, the plan has {wanted}")


def _judge(outcome: Outcome, reference: Reference, found: Sequence[np.ndarray]) -> None:
    outcome.reason, ill_conditioned = reference.difference(found)
    if outcome.reason:
        outcome.verdict, outcome.symptom = Verdict.MISMATCH, "mismatch"
    elif ill_conditioned:
        outcome.verdict = Verdict.ILL_CONDITIONED


def _fail(outcome: Outcome, verdict: Verdict, error: Exception) -> None:
    outcome.verdict = verdict
    outcome.reason = f"{type(error).__name__}: {str(error)[:2000]}"
    where = traceback.extract_tb(error.__traceback__)[-1]
    outcome.symptom = f"{type(error).__name__} at {Path(where.filename).name}:{where.name}"
    outcome.trace = "".join(traceback.format_exception(error, limit=-8))[:6000]
