"""Properties of the planner on random programs of up to six operations, against enumeration."""

import dataclasses
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import PartitionSpec as P

import meshwright as mw
from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.ir import walk_nodes
from meshwright.compiler.planner.builder import ModelBuilder
from meshwright.compiler.planner.model import Model
from meshwright.compiler.planner.solver.failure import InfeasibleBudget
from meshwright.compiler.planner.solver.solve import SolveOptions, solve
from meshwright.compiler.rules import RuleBook
from meshwright.cost_models.hardware_record import load_hardware
from meshwright.cost_models.mesh import LogicalMesh

SIZES = (4, 6, 1024)
OPS = ("matmul", "add", "mul", "tanh", "transpose", "sum")
_RULES = RuleBook()

Op = tuple[str, int, int]


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[Op]]:
    """Shapes of two or three matrices, and operations on earlier values by number."""
    shapes = draw(st.lists(st.tuples(st.sampled_from(SIZES), st.sampled_from(SIZES)), min_size=2, max_size=3))
    picks = st.tuples(st.sampled_from(OPS), st.integers(0, 8), st.integers(0, 8))
    return shapes, draw(st.lists(picks, min_size=1, max_size=6))


def _function(ops: Sequence[Op]) -> Callable[..., Any]:
    """Applies each operation to earlier values where shapes allow, else ``tanh``; returns the last two."""

    def run(*arguments: jax.Array) -> list[jax.Array]:
        values = list(arguments)
        for op, i, j in ops:
            values.append(_apply(op, values[i % len(values)], values[j % len(values)]))
        return values[-2:]

    return run


def _apply(op: str, x: jax.Array, y: jax.Array) -> jax.Array:
    if op == "matmul" and x.ndim == y.ndim == 2 and x.shape[1] == y.shape[0]:
        return x @ y
    if op in ("add", "mul") and x.shape == y.shape:
        return x + y if op == "add" else x * y
    if op == "transpose":
        return x.T
    if op == "sum" and x.ndim == 2:
        return jnp.sum(x, 0)
    return jnp.tanh(x)


def _model(shapes: Sequence[tuple[int, int]], ops: Sequence[Op], cluster: mw.Cluster) -> Model:
    specs = [jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes]
    program = trace_program(_function(ops), TraceOptions(), specs, {})
    _RULES.prepare(n for n in walk_nodes(program.graph) if not n.regions)
    return ModelBuilder(program, LogicalMesh(cluster, (cluster.num_devices,), ("data",)), _RULES, {}).build(
        None
    )


def _enumerate(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Cost and peak bytes of every choice, one array axis per variable."""
    problem = model.problem
    rank = problem.num_nodes
    cost = np.zeros(problem.sizes)
    for node, costs in enumerate(problem.costs):
        cost = cost + _spread(costs, [node], rank)
    for edge in problem.edges:
        cost = cost + _spread(edge.cost, [edge.i, edge.j], rank)
    peak = np.zeros(problem.sizes)
    for point in range(problem.num_points):
        live = np.zeros(problem.sizes)
        for usage in problem.usages:
            if usage.start <= point < usage.end:
                live = live + _spread(usage.bytes, [usage.node], rank)
        for copy in problem.edge_usages:
            if copy.start <= point < copy.end:
                edge = problem.edges[copy.edge]
                live = live + _spread(copy.bytes, [edge.i, edge.j], rank)
        peak = np.maximum(peak, live)
    return cost, peak


def _spread(table: np.ndarray, axes: Sequence[int], rank: int) -> np.ndarray:
    shape = [1] * rank
    for axis, size in zip(axes, table.shape, strict=True):
        shape[axis] = size
    order = np.argsort(axes)
    return np.transpose(table, order).reshape(shape)


def _solved(model: Model, budget: float | None) -> float:
    problem = dataclasses.replace(model.problem, budget_bytes=budget)
    return solve(problem, SolveOptions()).objective_s


def _few_choices(model: Model) -> bool:
    return float(np.prod(model.problem.sizes.astype(float))) <= 3e6


@settings(max_examples=200)
@given(programs(), st.sampled_from(["cpu:2", "h100:1x2"]), st.floats(0, 1))
def test_solver_finds_the_optimum(
    program: tuple[list[tuple[int, int]], list[Op]], cluster: str, tightness: float
) -> None:
    model = _model(*program, mw.Cluster.load(cluster))
    if not _few_choices(model):
        return
    cost, peak = _enumerate(model)
    np.testing.assert_allclose(_solved(model, None), cost.min(), rtol=1e-6)
    # A budget between the least peak and the peak of the cheapest choice binds.
    free = peak[np.unravel_index(np.argmin(cost), cost.shape)]
    budget = float(peak.min() + tightness * max(free - peak.min(), 0.0))
    np.testing.assert_allclose(_solved(model, budget), cost[peak <= budget].min(), rtol=1e-6)
    if peak.min() > 1:
        with pytest.raises(InfeasibleBudget) as caught:
            _solved(model, 0.5 * float(peak.min()))
        np.testing.assert_allclose(caught.value.least_budget_bytes, peak.min(), rtol=1e-6)


def _with_links(factor: float) -> mw.Cluster:
    base = load_hardware("h100")
    links = {name: {"bandwidth": factor * getattr(base, name).bandwidth} for name in ("inner", "outer")}
    return mw.Cluster("fast", load_hardware("h100", {"link": links}), (1, 2))


@settings(max_examples=25)
@given(programs(), st.floats(1, 100))
def test_faster_links_never_cost_more(program: tuple[list[tuple[int, int]], list[Op]], factor: float) -> None:
    slow = _solved(_model(*program, _with_links(1.0)), None)
    fast = _solved(_model(*program, _with_links(factor)), None)
    assert fast <= slow * (1 + 1e-9)


@settings(max_examples=25)
@given(programs(), st.floats(0, 1), st.floats(0, 1))
def test_more_memory_never_costs_more(
    program: tuple[list[tuple[int, int]], list[Op]], first: float, second: float
) -> None:
    model = _model(*program, mw.Cluster.load("cpu:2"))
    if not _few_choices(model):
        return
    _, peak = _enumerate(model)
    less, more = (float(peak.min() + t * (peak.max() - peak.min())) for t in sorted((first, second)))
    assert _solved(model, more) <= _solved(model, less) * (1 + 1e-9)


def _mlp(params: Any, x: jax.Array) -> Any:
    def loss(p: Any) -> jax.Array:
        return jnp.mean(jnp.tanh(x @ p["up"]) @ p["down"])

    grads = jax.grad(loss)(params)
    return jax.tree.map(lambda p, g: p - g, params, grads)


_MLP_ARGUMENTS = (
    {
        "up": jax.ShapeDtypeStruct((512, 2048), jnp.float32),
        "down": jax.ShapeDtypeStruct((2048, 512), jnp.float32),
    },
    jax.ShapeDtypeStruct((64, 512), jnp.float32),
)


@pytest.mark.parametrize("pin", [P(), P("data"), P(None, "data"), P("model", "data"), P(("data", "model"))])
def test_a_pin_never_makes_a_plan_cheaper(pin: P) -> None:
    def objective(**options: Any) -> float:
        return mw.plan(_mlp, *_MLP_ARGUMENTS, cluster="cpu:8", mesh=(2, 4), **options).objective_s

    free, pinned = objective(), objective(pins={"up": pin})
    assert free <= pinned * (1 + 1e-9)


def test_axis_names_and_order_change_nothing() -> None:
    meshes: list[Any] = [(2, 4), (4, 2), {"model": 2, "data": 4}, {"x": 4, "y": 2}]
    found = [mw.plan(_mlp, *_MLP_ARGUMENTS, cluster="cpu:8", mesh=m).objective_s for m in meshes]
    np.testing.assert_allclose(found, found[0], rtol=1e-12)


_PRINT_HASH = """
import sys; sys.path.insert(0, sys.argv[1])
from test_properties import _MLP_ARGUMENTS, _mlp
import meshwright as mw
print(mw.plan(_mlp, *_MLP_ARGUMENTS, cluster="h100:1x8", budget_bytes=3e6).hash)
"""


def test_ten_runs_one_plan() -> None:
    hashes = {mw.plan(_mlp, *_MLP_ARGUMENTS, cluster="h100:1x8", budget_bytes=3e6).hash for _ in range(8)}
    for seed, threads in itertools.product(("1",), ("1", "2")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": threads}
        command = [sys.executable, "-c", _PRINT_HASH, os.path.dirname(__file__)]
        hashes.add(
            subprocess.run(
                command, env=environment, capture_output=True, text=True, check=True
            ).stdout.strip()
        )
    assert len(hashes) == 1
