"""Searches logical meshes and strategies for one program on one cluster."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...cost_models.cluster import Cluster
from ...cost_models.mesh import LogicalMesh
from ..errors import InfeasibleError, PinError, SolverError, TemplateError
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
from .templates.catalogue import TEMPLATES
from .templates.experts import Experts
from .templates.placement import Placement

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
        TemplateError: where the template asked for applies on no mesh.
        SolverError: where the solver fails.
    """
    deadline = Deadline.after(options.time_limit_s, clock)
    rules = rules or RuleBook()
    rules.prepare(node for node in walk_nodes(program.graph) if not node.regions)
    budget = float(options.budget_bytes or cluster.memory_bytes)
    found = Candidates()
    experts = Experts(program, rules)
    for mesh, placed in _places(program, cluster, options, experts):
        if found.tried and deadline.is_over():
            found.is_cut_short = True
            break
        if progress:
            progress(f"mesh {'x'.join(map(str, mesh.shape))}")
        pins = resolve_pins(program, mesh, read_pins(options.pins))
        model = ModelBuilder(program, mesh, rules, pins, experts.narrowing(placed)).build(budget)
        try:
            _try(found, mesh, model, experts, placed, _solve_options(model, options, deadline, found))
        except NoAllowedChoice as failure:
            if placed is not None:
                reasons = {mesh.shape: "its layouts cannot follow one another"}
                raise TemplateError(placed.template.name, program.name, reasons, ()) from failure
            raise SolverError(
                f"{program.name} has no layouts that can follow one another on mesh {mesh.shape}. This is a "
                "fault of meshwright: please report the program with its pins."
            ) from failure
    if found.best is None:
        raise _infeasible(found, options.time_limit_s if deadline.is_over() else None)
    best = found.best
    record = SearchRecord(options.effort, tuple(found.tried), found.is_cut_short, budget, best.template)
    return extract_plan(program, best.mesh, best.model, best.solution, record)


def _places(
    program: Program, cluster: Cluster, options: PlanOptions, experts: Experts
) -> Sequence[tuple[LogicalMesh, Placement | None]]:
    """The meshes to try, each with the template asked for on its axes."""
    meshes = search_meshes(program, cluster, options)
    if options.template is None:
        return [(mesh, None) for mesh in meshes]
    found = [(mesh, experts.place(TEMPLATES[options.template], mesh)) for mesh in meshes]
    suited = [(mesh, placed) for mesh, placed in found if isinstance(placed, Placement)]
    if not suited:
        reasons = {mesh.shape: reason for mesh, reason in found if isinstance(reason, str)}
        others = [
            n for n in TEMPLATES if n != options.template and _applies(n, program, cluster, options, experts)
        ]
        raise TemplateError(options.template, program.name, reasons, others)
    return suited


def _applies(name: str, program: Program, cluster: Cluster, options: PlanOptions, experts: Experts) -> bool:
    """Whether another template would apply in place of the one asked for."""
    try:
        meshes = search_meshes(program, cluster, replace(options, template=name))
    except PinError:
        return False
    return any(isinstance(experts.place(TEMPLATES[name], mesh), Placement) for mesh in meshes)


def _try(
    found: Candidates,
    mesh: LogicalMesh,
    model: Model,
    experts: Experts,
    placed: Placement | None,
    options: SolveOptions,
) -> None:
    """Solves one mesh: within the template asked for, or freely and compared with all that apply."""
    try:
        if placed is not None:
            solution = experts.solve_within(placed, model, options)
            found.add(mesh, model, solution, placed.template.name)
            return
        solution = solve(model.problem, options)
    except InfeasibleBudget as failure:
        better = None
        if placed is None and not failure.is_proven:
            better = experts.improve(mesh, model, None, options)
        if better is None:
            found.add_failure(mesh, model, failure, options.deadline.is_over())
        else:
            found.add(mesh, model, *better)
        return
    known_s = min(options.cutoff_s, solution.objective_s)
    better = None
    if not solution.is_optimal and solution.bound_s < known_s:
        better = experts.improve(mesh, model, solution, options)
    found.add(mesh, model, *(better or (solution, "")))


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
        wants_floors=options.template is None,
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
