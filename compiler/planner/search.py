"""Searches logical meshes and strategies for one program on one cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...cost_models.cluster import Cluster
from ...cost_models.mesh import LogicalMesh
from ..errors import InfeasibleError
from ..ir import Program, walk_nodes
from ..plan import Plan
from ..rules import RuleBook
from .builder import ModelBuilder
from .extract import extract_plan, live_tensors
from .meshes import search_meshes
from .model import Model
from .options import PlanOptions
from .pin_option import read_pins
from .pins import resolve_pins
from .solver.failure import InfeasibleBudget
from .solver.solve import Solution, SolveOptions, solve

# Where to stop, by effort: the certified gap at which looking further is not worth the time.
_GAP_TOLERANCE = {0: 0.05, 1: 0.02, 2: 0.01, 3: 0.001}
_SMALL, _EXACT = 200, 1e-6
_MOST_NAMED = 10

Progress = Callable[[str], None]


@dataclass(frozen=True)
class _Candidate:
    mesh: LogicalMesh
    model: Model
    solution: Solution


def plan_program(
    program: Program,
    cluster: Cluster,
    options: PlanOptions,
    rules: RuleBook | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Plans a program.

    Args:
        program: the traced program.
        cluster: the devices.
        options: what the user asked for.
        rules: factor rules to share between searches.
        progress: called with a line of text as the search goes on.

    Returns:
        The cheapest plan found over all meshes.

    Raises:
        InfeasibleError: where no mesh has a plan that fits, with the least budget that would do.
        InvalidMeshError, PinError, IndivisibleError: where mesh or pins cannot be honoured.
        SolverError: where the solver fails.
    """
    rules = rules or RuleBook()
    rules.prepare(node for node in walk_nodes(program.graph) if not node.regions)
    budget = float(options.budget_bytes or cluster.memory_bytes)
    meshes = search_meshes(program, cluster, options)
    tried: list[tuple[tuple[int, ...], float | None]] = []
    best: _Candidate | None = None
    failures: list[tuple[Model, InfeasibleBudget]] = []
    for mesh in meshes:
        if progress:
            progress(f"mesh {'x'.join(map(str, mesh.shape))}")
        model = ModelBuilder(
            program, mesh, rules, resolve_pins(program, mesh, read_pins(options.pins))
        ).build(budget)
        try:
            solution = solve(model.problem, _solve_options(model, options))
        except InfeasibleBudget as failure:
            failures.append((model, failure))
            tried.append((mesh.shape, None))
            continue
        tried.append((mesh.shape, solution.objective_s))
        if best is None or solution.objective_s < best.solution.objective_s:
            best = _Candidate(mesh, model, solution)
    if best is None:
        raise _infeasible(failures)
    return extract_plan(program, best.mesh, best.model, best.solution, options.effort, tuple(tried), budget)


def _solve_options(model: Model, options: PlanOptions) -> SolveOptions:
    """Small problems are solved to the end; on large ones a bound within the tolerance ends the search."""
    small = model.problem.num_nodes <= _SMALL
    tolerance = _EXACT if small else _GAP_TOLERANCE[options.effort]
    return SolveOptions(options.effort, gap_tolerance=tolerance, time_limit_s=options.time_limit_s)


def _infeasible(failures: Sequence[tuple[Model, InfeasibleBudget]]) -> InfeasibleError:
    """The error for the mesh that comes nearest; proved only where every mesh is proved not to fit."""
    model, failure = min(failures, key=lambda pair: pair[1].least_budget_bytes)
    largest = live_tensors(model, failure.choice, failure.point)[:_MOST_NAMED]
    return InfeasibleError(
        int(failure.least_budget_bytes) + 1,
        int(failure.budget_bytes),
        model.live_names[failure.point],
        [(f"{t.name} x {t.count}" if t.count > 1 else t.name, t.count * t.bytes) for t in largest],
        all(other.is_proven for _, other in failures),
    )
