"""Searches logical meshes and strategies for one program on one cluster."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from ...cost_models.cluster import Cluster
from ..errors import InfeasibleError, SolverError
from ..ir import Program, walk_nodes
from ..plan import Plan
from ..rules import RuleBook
from .builder import ModelBuilder
from .candidates import Candidates
from .extract import SearchRecord, extract_plan, live_tensors
from .meshes import search_meshes
from .model import Model
from .options import PlanOptions
from .pin_option import read_pins
from .pins import resolve_pins
from .solver.deadline import Deadline
from .solver.failure import InfeasibleBudget, NoAllowedChoice
from .solver.solve import SolveOptions, solve

# Where to stop, by effort: the certified gap at which looking further is not worth the time.
_GAP_TOLERANCE = {0: 0.05, 1: 0.02, 2: 0.01, 3: 0.001}
_SMALL, _EXACT = 200, 1e-6
_MOST_NAMED = 10

Progress = Callable[[str], None]


def plan_program(
    program: Program,
    cluster: Cluster,
    options: PlanOptions,
    rules: RuleBook | None = None,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Plan:
    """Plans a program.

    All meshes share the time limit. Once it is over, the mesh at hand is finished with the cheap steps of the
    search, until it has a plan that fits, and no other is tried.

    Args:
        program: the traced program.
        cluster: the devices.
        options: what the user asked for.
        rules: factor rules to share between searches.
        progress: called with a line of text as the search goes on.
        clock: tells the seconds that the time limit counts.

    Returns:
        The cheapest plan found over all meshes; of plans whose costs differ by less than 1e-9 of them, the
        one of least memory, then of fewest axes, then of the first mesh.

    Raises:
        InfeasibleError: where no mesh tried has a plan that fits, with the least budget that would do.
        InvalidMeshError, PinError, IndivisibleError: where mesh or pins cannot be honoured.
        SolverError: where the solver fails.
    """
    deadline = Deadline.after(options.time_limit_s, clock)
    rules = rules or RuleBook()
    rules.prepare(node for node in walk_nodes(program.graph) if not node.regions)
    budget = float(options.budget_bytes or cluster.memory_bytes)
    found = Candidates()
    for mesh in search_meshes(program, cluster, options):
        if found.tried and deadline.is_over():
            found.is_cut_short = True
            break
        if progress:
            progress(f"mesh {'x'.join(map(str, mesh.shape))}")
        pins = resolve_pins(program, mesh, read_pins(options.pins))
        model = ModelBuilder(program, mesh, rules, pins).build(budget)
        try:
            found.add(mesh, model, solve(model.problem, _solve_options(model, options, deadline, found)))
        except InfeasibleBudget as failure:
            found.add_failure(mesh, model, failure, deadline.is_over())
        except NoAllowedChoice as failure:
            raise SolverError(
                f"{program.name} has no layouts that can follow one another on mesh {mesh.shape}. This is a "
                "fault of meshwright: please report the program with its pins."
            ) from failure
    if found.best is None:
        raise _infeasible(found, options.time_limit_s if deadline.is_over() else None)
    best = found.best
    record = SearchRecord(options.effort, tuple(found.tried), found.is_cut_short, budget)
    return extract_plan(program, best.mesh, best.model, best.solution, record)


def _solve_options(model: Model, options: PlanOptions, deadline: Deadline, found: Candidates) -> SolveOptions:
    """Small problems are solved to the end; on large ones a bound within the tolerance ends the search."""
    small = model.problem.num_nodes <= _SMALL
    tolerance = _EXACT if small else _GAP_TOLERANCE[options.effort]
    return SolveOptions(
        options.effort,
        gap_tolerance=tolerance,
        deadline=deadline,
        cutoff_s=found.cutoff_s,
        cutoff_bytes=found.cutoff_bytes,
    )


def _infeasible(found: Candidates, passed_limit_s: float | None) -> InfeasibleError:
    """The error for the mesh that comes nearest; proved only where every mesh is proved not to fit."""
    model, failure = min(found.failures, key=lambda pair: pair[1].least_budget_bytes)
    largest = live_tensors(model, failure.choice, failure.point)[:_MOST_NAMED]
    is_proven = not found.is_cut_short and all(other.is_proven for _, other in found.failures)
    return InfeasibleError(
        math.ceil(failure.least_budget_bytes),
        int(failure.budget_bytes),
        model.live_names[failure.point],
        [(f"{t.name} x {t.count}" if t.count > 1 else t.name, t.count * t.bytes) for t in largest],
        is_proven,
        None if is_proven else passed_limit_s,
    )
