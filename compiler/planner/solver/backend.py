"""One door to the linear and integer solver: arrays in, checked result out.

OR-tools MathOpt with HiGHS, one thread, fixed seed. The model goes over as a protocol buffer filled from
arrays, so building costs milliseconds per hundred thousand entries. The status is read here and nowhere
else.
"""

from __future__ import annotations

import datetime
import tempfile
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from ortools.math_opt import model_pb2
from ortools.math_opt.python import mathopt
from ortools.math_opt.solvers import highs_pb2

from ...errors import SolverError
from .deadline import NEVER, Deadline
from .problem import Array

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Minimise objective . v subject to row_lower <= A v <= row_upper, lower <= v <= upper.

    Attributes:
        objective: Shape [columns].
        lower: Shape [columns].
        upper: Shape [columns].
        integer: Which columns are whole numbers, shape [columns].
        row: Row of each non-zero.
        column: Column of each non-zero.
        value: Each non-zero.
        row_lower: Shape [rows].
        row_upper: Shape [rows].
    """

    objective: Array
    lower: Array
    upper: Array
    integer: NDArray[np.bool_]
    row: Index
    column: Index
    value: Array
    row_lower: Array
    row_upper: Array


@dataclass(frozen=True)
class Limits:
    """When to stop a solve.

    Attributes:
        relative_gap: Stop when (value - bound) / |value| is at most this.
        max_nodes: Most search nodes (a reproducible limit), or None.
        deadline: When to stop in any case; reaching it makes the result depend on the machine.
        target: Stop at the first solution at least this good, or None.
    """

    relative_gap: float = 1e-6
    max_nodes: int | None = None
    deadline: Deadline = NEVER
    target: float | None = None


@dataclass(frozen=True, eq=False)
class LinearResult:
    """What the solver found.

    Attributes:
        values: Column values, or None where no solution was found.
        objective: Their objective (`inf` without one).
        bound: No solution is below this (`inf` where proven infeasible).
        duals: Row duals of a pure LP (empty for integer models), shape [rows].
        iterations: Simplex iterations.
        nodes: Search nodes.
    """

    values: Array | None
    objective: float
    bound: float
    duals: Array = field(default_factory=lambda: np.zeros(0))
    iterations: int = 0
    nodes: int = 0


def run(model: LinearModel, limits: Limits, start: Array | None = None) -> LinearResult:
    """Solve a model.

    Args:
        model: What to minimise.
        limits: When to stop.
        start: A first solution, shape [columns], or None.

    Raises:
        SolverError: Where the solver fails or answers with a status that does not fit a bounded
            minimisation; the message names a file holding the model.
    """
    proto = _proto(model)
    parameters = mathopt.SolveParameters(
        relative_gap_tolerance=limits.relative_gap, absolute_gap_tolerance=0.0, highs=_options(limits)
    )
    left_s = limits.deadline.left_s()
    if left_s is not None:
        parameters.time_limit = datetime.timedelta(seconds=left_s)
    try:
        handle = mathopt.Model.from_model_proto(proto)
        hint = _hint(handle, start)
        result = mathopt.solve(handle, mathopt.SolverType.HIGHS, params=parameters, model_params=hint)
    except (
        Exception
    ) as error:  # the binding raises many types; all become one, with the model kept for a report
        raise SolverError(f"the integer solver failed ({error}); its model is in {_keep(proto)}") from error
    return _read(model, proto, result)


def _proto(model: LinearModel) -> model_pb2.ModelProto:
    proto = model_pb2.ModelProto()
    n, m = len(model.objective), len(model.row_lower)
    proto.variables.ids.extend(range(n))
    proto.variables.lower_bounds.extend(model.lower.tolist())
    proto.variables.upper_bounds.extend(model.upper.tolist())
    proto.variables.integers.extend(model.integer.tolist())
    used = np.flatnonzero(model.objective)
    proto.objective.linear_coefficients.ids.extend(used.tolist())
    proto.objective.linear_coefficients.values.extend(model.objective[used].tolist())
    proto.linear_constraints.ids.extend(range(m))
    proto.linear_constraints.lower_bounds.extend(model.row_lower.tolist())
    proto.linear_constraints.upper_bounds.extend(model.row_upper.tolist())
    order = np.lexsort((model.column, model.row))
    order = order[model.value[order] != 0]
    matrix = proto.linear_constraint_matrix
    matrix.row_ids.extend(model.row[order].tolist())
    matrix.column_ids.extend(model.column[order].tolist())
    matrix.coefficients.extend(model.value[order].tolist())
    return proto


def _options(limits: Limits) -> highs_pb2.HighsOptionsProto:
    options = highs_pb2.HighsOptionsProto()
    options.int_options["random_seed"] = 1
    options.int_options["threads"] = 1
    options.string_options["parallel"] = "off"
    if limits.max_nodes is not None:
        options.int_options["mip_max_nodes"] = limits.max_nodes
    if limits.target is not None:
        options.double_options["objective_target"] = limits.target
    return options


def _hint(handle: mathopt.Model, start: Array | None) -> mathopt.ModelSolveParameters:
    if start is None:
        return mathopt.ModelSolveParameters()
    values = dict(zip(handle.variables(), start.tolist(), strict=True))
    return mathopt.ModelSolveParameters(solution_hints=[mathopt.SolutionHint(variable_values=values)])


def _read(model: LinearModel, proto: model_pb2.ModelProto, result: mathopt.SolveResult) -> LinearResult:
    reason, stats = result.termination.reason, result.solve_stats
    iterations, nodes = stats.simplex_iterations, stats.node_count
    known = mathopt.TerminationReason
    if reason == known.INFEASIBLE:
        return LinearResult(None, np.inf, np.inf, iterations=iterations, nodes=nodes)
    if reason not in (known.OPTIMAL, known.FEASIBLE, known.NO_SOLUTION_FOUND):
        raise SolverError(
            f"the integer solver stopped with {result.termination}; its model is in {_keep(proto)}"
        )
    bounds = result.termination.objective_bounds
    if not result.has_primal_feasible_solution():
        return LinearResult(None, np.inf, bounds.dual_bound, iterations=iterations, nodes=nodes)
    solution = result.to_proto().solutions[0]
    values = np.zeros(len(model.objective))
    values[list(solution.primal_solution.variable_values.ids)] = (
        solution.primal_solution.variable_values.values
    )
    duals = np.zeros(len(model.row_lower))
    if solution.HasField("dual_solution"):
        duals[list(solution.dual_solution.dual_values.ids)] = solution.dual_solution.dual_values.values
    return LinearResult(values, float(model.objective @ values), bounds.dual_bound, duals, iterations, nodes)


def _keep(proto: model_pb2.ModelProto) -> str:
    """Write the model to a file that stays, and return its path."""
    with tempfile.NamedTemporaryFile(prefix="meshwright-", suffix=".mathopt.pb", delete=False) as file:
        file.write(proto.SerializeToString())
        return file.name
