"""CPU seconds of the planner's phases, taken while the planner itself runs.

``meshwright.compiler.planner.search.plan_program`` calls its phases by name; for one search these names lead
through a stopwatch. So the loop over meshes that is timed is the planner's own, and what lies between the
phases is in the total.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import meshwright as mw
from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.planner import PlanOptions, search
from meshwright.compiler.planner.builder import ModelBuilder
from meshwright.compiler.rules import RuleBook

from .measure import cpu_s
from .models import Workload


@dataclass(frozen=True)
class TimedPlan:
    """A plan and the CPU seconds it took.

    Attributes:
        plan: the plan.
        trace_s: JAX's trace and the import of its jaxpr.
        rules_s: factor rules.
        model_s: building the optimisation problems, of all meshes.
        solve_s: solving them.
        extract_s: writing the plan.
        planned_s: everything after the trace.
    """

    plan: mw.Plan
    trace_s: float
    rules_s: float
    model_s: float
    solve_s: float
    extract_s: float
    planned_s: float


def timed_plan(workload: Workload, cluster: mw.Cluster, options: PlanOptions) -> TimedPlan:
    """Plans a step as ``mw.plan`` does, with a stopwatch on each phase.

    Args:
        workload: the step.
        cluster: what to plan for.
        options: of the search.
    """
    watch = _Stopwatch()
    trace = watch.on("trace", trace_program)
    program = trace(workload.step, TraceOptions(), workload.args, {})
    with _watched_phases(watch):
        plan = watch.on("planned", search.plan_program)(program, cluster, options, RuleBook())
    spent_s = watch.spent_s
    return TimedPlan(
        plan,
        trace_s=spent_s["trace"],
        rules_s=spent_s["rules"],
        model_s=spent_s["model"],
        solve_s=spent_s["solve"],
        extract_s=spent_s["extract"],
        planned_s=spent_s["planned"],
    )


class _Stopwatch:
    def __init__(self) -> None:
        self.spent_s: defaultdict[str, float] = defaultdict(float)

    def on(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its CPU seconds added to a phase."""

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            start_s = cpu_s()
            try:
                return function(*args, **kwargs)
            finally:
                self.spent_s[phase] += cpu_s() - start_s

        return watched


@contextmanager
def _watched_phases(watch: _Stopwatch) -> Iterator[None]:
    phases: list[tuple[Any, str, str]] = [
        (RuleBook, "prepare", "rules"),
        (ModelBuilder, "build", "model"),
        (search, "solve", "solve"),
        (search, "extract_plan", "extract"),
    ]
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in phases]
    try:
        for owner, name, phase in phases:
            setattr(owner, name, watch.on(phase, getattr(owner, name)))
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)
