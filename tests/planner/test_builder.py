"""The model of small programs: its variables and edges, weights, lifetimes, and what regions add."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.ir import Program, Value, walk_nodes
from meshwright.compiler.planner.builder import ModelBuilder
from meshwright.compiler.planner.layout import Layout
from meshwright.compiler.planner.model import Model, Read, Site
from meshwright.compiler.planner.solver.problem import Usage
from meshwright.compiler.rules import RuleBook
from meshwright.cost_models.cluster import Cluster
from meshwright.cost_models.mesh import LogicalMesh

BOOK = RuleBook()
MESH = LogicalMesh(Cluster.load("h100:1x8"), (8,), ("data",))
SQUARE = (512, 512)
DONATE = TraceOptions(donate_argnums=0)


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, "float32")


def traced(fun: Any, *args: Any, options: TraceOptions | None = None) -> Program:
    return trace_program(fun, options or TraceOptions(), args, {})


def built(program: Program, pins: dict[int, Layout] | None = None, budget: float | None = None) -> Model:
    return ModelBuilder(program, MESH, BOOK, pins or {}).build(budget)


def model_of(fun: Any, *args: Any, options: TraceOptions | None = None) -> Model:
    return built(traced(fun, *args, options=options))


def deciders(model: Model, op: str) -> list[int]:
    """The variables of one operation."""
    return [i for i, v in enumerate(model.variables) if v.node is not None and v.node.op == op]


def reads_by(model: Model, reader: int) -> list[Read]:
    return [r for r in model.reads if r.reader == reader]


def usage(model: Model, variable: int) -> Usage:
    (found,) = [u for u in model.problem.usages if u.node == variable]
    return found


def mlp(x: Any, w: Any, v: Any) -> Any:
    return jnp.tanh(jnp.exp(x @ w) * 2.0) @ v


def loss(x: Any) -> Any:
    return jnp.tanh(x @ x).sum()


def test_one_variable_for_each_input_operation_and_result() -> None:
    model = model_of(mlp, f32(*SQUARE), f32(*SQUARE), f32(*SQUARE))
    names = [v.name.split(" ")[0] for v in model.variables]
    assert names == ["x", "w", "v", "dot_general", "tanh", "dot_general", "result"]
    assert model.problem.names == tuple(v.name for v in model.variables)
    assert model.inputs == (0, 1, 2)
    for variable, costs in zip(model.variables, model.problem.costs, strict=True):
        assert costs.shape == (len(variable.strategies),)
        assert np.isfinite(costs).all()


def test_edges_are_between_what_is_read_and_its_reader() -> None:
    model = model_of(mlp, f32(*SQUARE), f32(*SQUARE), f32(*SQUARE))
    ends = [(e.i, e.j) for e in model.problem.edges]
    assert ends == [(0, 3), (1, 3), (3, 4), (4, 5), (2, 5), (5, 6)]
    assert [(r.source.variable, r.reader) for r in model.reads] == ends
    for edge in model.problem.edges:
        shape = tuple(len(model.variables[k].strategies) for k in (edge.i, edge.j))
        assert edge.cost.shape == shape
        assert (edge.cost >= 0).all()


def test_a_loop_reads_each_outside_value_once() -> None:
    model = model_of(lambda x, y: jnp.tanh(x) * x + y * x, f32(64), f32(64))
    (loop,) = deciders(model, "add")
    reads = reads_by(model, loop)
    assert [r.what for r in reads] == ["x", "y"]
    assert reads[0].sites == (Site(0, -1, 0), Site(1, -1, 1), Site(2, -1, 1))
    assert reads[1].sites == (Site(2, -1, 0),)


def test_a_matmul_reads_a_value_once_for_each_operand() -> None:
    model = model_of(lambda x: x @ x, f32(*SQUARE))
    (matmul,) = deciders(model, "dot_general")
    assert [r.sites for r in reads_by(model, matmul)] == [(Site(0, -1, 0),), (Site(0, -1, 1),)]
    assert len({r.edge for r in reads_by(model, matmul)}) == 2


def test_a_carried_output_is_read_as_its_input_is_laid_out() -> None:
    step = lambda state, x: ({"w": state["w"] * 0.5 + x.sum()}, x.sum())  # noqa: E731
    program = traced(step, {"w": f32(64, 8)}, f32(64))
    model = built(program)
    assert program.carried == (0, None)
    state, loss_read = [r for r in model.reads if r.sites[0].node == -1]
    assert state.reader == model.inputs[0]
    assert state.targets == model.definitions[program.graph.inputs[0]].layouts
    assert model.variables[loss_read.reader].name == "result 1"
    assert sum(v.name.startswith("result") for v in model.variables) == 1


def test_state_handed_through_needs_no_edge() -> None:
    model = model_of(lambda state, x: (state, x.sum()), {"a": f32(64), "b": f32(8)}, f32(64))
    kept = [r for r in model.reads if r.source.variable == r.reader]
    assert [r.what for r in kept] == ["state/a", "state/b"]
    assert all(r.edge is None for r in kept)


def test_states_that_change_places_are_tied_by_edges() -> None:
    swap = lambda state: {"a": state["b"], "b": state["a"]}  # noqa: E731
    model = model_of(swap, {"a": f32(64), "b": f32(64)})
    assert [(e.i, e.j) for e in model.problem.edges] == [(1, 0), (0, 1)]
    for edge in model.problem.edges:
        assert (np.diag(edge.cost) == 0).all()


def test_a_literal_result_is_read_by_nobody() -> None:
    model = model_of(lambda x: (1.5, x * 2.0), f32(64))
    assert [r.sites for r in model.reads if r.sites[0].node == -1] == [(Site(-1, 0, 1),)]


def test_pins_and_budget() -> None:
    program = traced(lambda x: jnp.exp(x), f32(64, 64))
    pinned = Layout(((), (0,)))
    model = built(program, {0: pinned}, budget=1e6)
    (only,) = model.variables[model.inputs[0]].strategies
    assert only.results == (pinned,)
    assert model.problem.budget_bytes == 1e6
    assert built(program).problem.budget_bytes is None


def test_inputs_split_where_nothing_else_decides() -> None:
    model = model_of(lambda x: x.sum(), f32(64))
    whole, split = model.problem.costs[model.inputs[0]]
    assert 0 < split < whole < 1e-9


# Lifetimes


def test_an_undonated_input_is_there_to_the_end() -> None:
    model = model_of(mlp, f32(*SQUARE), f32(*SQUARE), f32(*SQUARE))
    for variable in model.inputs:
        assert (usage(model, variable).start, usage(model, variable).end) == (0, model.problem.num_points)


def test_a_donated_input_goes_after_its_last_read() -> None:
    def fun(x: Any, w: Any) -> Any:
        h = jnp.exp(x @ w)
        return (h @ w).sum()

    model = model_of(fun, f32(*SQUARE), f32(*SQUARE), options=DONATE)
    points = [name.split(" ")[0] for name in model.live_names]
    assert points == ["arguments", "dot_general", "exp", "dot_general", "reduce_sum"]
    x, w = (usage(model, v) for v in model.inputs)
    assert (x.start, x.end) == (0, 2)
    assert (w.start, w.end) == (0, 5)


def test_values_live_from_their_operation_to_their_last_reader() -> None:
    model = model_of(mlp, f32(*SQUARE), f32(*SQUARE), f32(*SQUARE))
    first, last = deciders(model, "dot_general")
    (loop,) = deciders(model, "tanh")
    points = [name.split(" ")[0] for name in model.live_names]
    assert points == ["arguments", "dot_general", "exp", "mul", "tanh", "dot_general"]
    # The loop's first node reads the product; only its last result is written.
    assert (usage(model, first).start, usage(model, first).end) == (1, 3)
    assert (usage(model, loop).start, usage(model, loop).end) == (4, 6)
    assert (usage(model, last).start, usage(model, last).end) == (5, 6)


def test_a_value_read_late_by_its_loop_stays_until_then() -> None:
    model = model_of(lambda x, w: jnp.sin(jnp.cos(jnp.exp(w))) + x * w, f32(64), f32(64), options=DONATE)
    x = usage(model, model.inputs[0])
    late = model.live_names.index(next(n for n in model.live_names if n.startswith("mul")))
    assert (x.start, x.end) == (0, late + 1)


def test_bytes_are_those_of_one_device() -> None:
    model = model_of(lambda x: jnp.exp(x), f32(64, 3))
    whole, split = usage(model, model.inputs[0]).bytes
    assert (whole, split) == (64 * 3 * 4, 64 * 3 * 4 / 8)


def test_copies_take_memory_where_they_are_read() -> None:
    model = model_of(mlp, f32(*SQUARE), f32(*SQUARE), f32(*SQUARE))
    by_edge = {u.edge: u for u in model.problem.edge_usages}
    assert {(u.start, u.end) for u in (by_edge[0], by_edge[1])} == {(1, 2)}
    assert all(u.bytes.max() <= 4 * np.prod(SQUARE) for u in by_edge.values())


# Regions


def looped(length: int) -> Model:
    body = lambda h, w: (jnp.tanh(h @ w), h.sum(0))  # noqa: E731
    return model_of(lambda h, ws: lax.scan(body, h, ws), f32(*SQUARE), f32(length, *SQUARE))


@pytest.mark.parametrize("length", [1, 3, 16])
def test_loop_bodies_weigh_as_often_as_they_run(length: int) -> None:
    inside, outside = looped(length), model_of(lambda h, w: jnp.tanh(h @ w), f32(*SQUARE), f32(*SQUARE))
    for op in ("dot_general", "tanh"):
        (a,), (b,) = deciders(inside, op), deciders(outside, op)
        assert inside.variables[a].weight == length
        np.testing.assert_allclose(inside.problem.costs[a], length * outside.problem.costs[b])
    (a,), (b,) = deciders(inside, "dot_general"), deciders(outside, "dot_general")
    edges = [[r.edge for r in reads_by(m, v)] for m, v in ((inside, a), (outside, b))]
    for i, j in zip(*edges, strict=True):
        costs = inside.problem.edges[i].cost, outside.problem.edges[j].cost
        np.testing.assert_allclose(costs[0], length * costs[1])


def test_nested_loops_multiply() -> None:
    def outer(h: Any, _: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.tanh(c), None), h, None, 5)[0], None

    model = model_of(lambda h: lax.scan(outer, h, None, 3)[0], f32(64))
    (tanh,) = deciders(model, "tanh")
    assert model.variables[tanh].weight == 15


def test_a_loop_is_entered_once() -> None:
    program = traced(
        lambda h, w: lax.scan(lambda c, _: (c @ w, None), h, None, 4)[0], f32(*SQUARE), f32(*SQUARE)
    )
    model = built(program)
    (scan,) = [n for n in program.graph.nodes if n.op == "scan"]
    entries = [r for r in model.reads if r.sites[0].node == scan.index and r.sites[0].region == -1]
    assert [r.weight for r in entries] == [1.0, 1.0]
    (leaves,) = [r for r in model.reads if r.sites == (Site(scan.index, 0, 0),)]
    assert leaves.weight == 4.0


def test_a_carry_is_one_variable() -> None:
    program = traced(lambda h: lax.scan(lambda c, _: (jnp.tanh(c), None), h, None, 4)[0], f32(64))
    model = built(program)
    (scan,) = program.graph.nodes
    entered, left = scan.regions[0].inputs[0], scan.results[0]
    assert model.definitions[entered] is model.definitions[left]
    (back,) = [r for r in model.reads if r.sites == (Site(scan.index, 0, 0),)]
    assert back.reader == model.definitions[entered].variable


def test_the_loops_dim_is_never_split() -> None:
    model = looped(16)
    (entry,) = [r for r in model.reads if r.what == "ws"]
    assert {t.dims[0] for t in entry.targets} == {()}
    assert [t.dims[1:] for t in entry.targets] == [
        s.results[0].dims for s in model.variables[entry.reader].strategies
    ]
    (stack,) = [v for v in model.variables if v.name.startswith("scan result")]
    assert {s.results[0].dims[0] for s in stack.strategies} == {()}


def test_a_loops_operands_stay_until_its_last_trip() -> None:
    def fun(h: Any, w: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.tanh(c @ w), None), h, None, 4)[0].sum()

    model = model_of(fun, f32(*SQUARE), f32(*SQUARE), options=TraceOptions(donate_argnums=(0, 1)))
    last = max(i for i, name in enumerate(model.live_names) if name.startswith("tanh"))
    inside = [i for i, v in enumerate(model.variables) if v.name.startswith("scan input")]
    assert len(inside) == 2
    for variable in inside:
        assert usage(model, variable).end >= last + 1
    for variable in model.inputs:
        assert usage(model, variable).end == last + 1


def test_branches_share_the_weight() -> None:
    cases = (lambda v: jnp.exp(v), lambda v: jnp.sin(v) @ v, lambda v: v)
    model = model_of(lambda i, x: lax.switch(i, cases, x), jax.ShapeDtypeStruct((), "int32"), f32(*SQUARE))
    alone = model_of(lambda x: jnp.exp(x), f32(*SQUARE))
    (exp,), (outside,) = deciders(model, "exp"), deciders(alone, "exp")
    assert model.variables[exp].weight == pytest.approx(1 / 3)
    np.testing.assert_allclose(model.problem.costs[exp], alone.problem.costs[outside] / 3)
    (result,) = [i for i, v in enumerate(model.variables) if v.name.startswith("cond result")]
    into = [r for r in model.reads if r.reader == result]
    assert [r.sites[0].region for r in into] == [0, 1, 2]
    assert {r.weight for r in into} == {pytest.approx(1 / 3)}


def test_a_while_loop_is_taken_to_run_a_hundred_times() -> None:
    fun = lambda x: lax.while_loop(lambda c: c.sum() < 9.0, lambda c: jnp.tanh(c), x)  # noqa: E731
    program = traced(fun, f32(64))
    model = built(program)
    for op in ("tanh", "reduce_sum"):
        (variable,) = deciders(model, op)
        assert model.variables[variable].weight == 100
    (loop,) = program.graph.nodes
    condition, body = loop.regions
    carried = {id(model.definitions[v]) for v in (*condition.inputs, *body.inputs, *loop.results)}
    assert len(carried) == 1


def test_remat_and_branches_read_what_they_are_given() -> None:
    def fun(x: Any, w: Any) -> Any:
        h = jax.checkpoint(lambda a, b: jnp.tanh(a @ b))(x, w)
        return lax.cond(h.sum() > 0, lambda v: v @ v, lambda v: v, h)

    program = traced(fun, f32(*SQUARE), f32(*SQUARE))
    model = built(program)
    remat = next(n for n in program.graph.nodes if n.op == "remat2")
    cond = next(n for n in program.graph.nodes if n.op == "cond")
    given = [(remat.operands, remat.regions[0].inputs), (remat.regions[0].outputs, remat.results)]
    given += [(cond.operands[1:], branch.inputs) for branch in cond.regions]
    for outside, inside in given:
        for a, b in zip(outside, inside, strict=True):
            assert isinstance(a, Value) and isinstance(b, Value)
            assert model.definitions[a] is model.definitions[b]


def test_every_value_read_has_a_definition() -> None:
    program = traced(
        jax.grad(lambda w, x: lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, 3)[0].sum()),
        f32(*SQUARE),
        f32(*SQUARE),
    )
    model = built(program)
    for node in walk_nodes(program.graph):
        for value in (*node.operands, *node.results):
            assert not isinstance(value, Value) or value in model.definitions, (node.op, value)


# Constants


def test_constants_choose_their_layout() -> None:
    table = np.ones(SQUARE, np.float32)
    program = traced(lambda x: x @ table, f32(*SQUARE))
    model = built(program)
    (constant,) = program.graph.constants
    definition = model.definitions[constant]
    variable = model.variables[definition.variable]
    assert variable.value is constant
    assert len(variable.strategies) == 3
    assert usage(model, definition.variable).start == 0
    (matmul,) = deciders(model, "dot_general")
    assert [r.source for r in reads_by(model, matmul)][1] is definition


def test_constants_of_a_branch_are_there_with_it() -> None:
    table = np.ones(SQUARE, np.float32)
    program = traced(
        lambda p, x: lax.cond(p, lambda v: v @ table, lambda v: v, x),
        jax.ShapeDtypeStruct((), bool),
        f32(*SQUARE),
    )
    model = built(program)
    constants = [c for n in program.graph.nodes for r in n.regions for c in r.constants]
    everywhere = [*program.graph.constants, *constants]
    assert everywhere
    for constant in everywhere:
        assert model.variables[model.definitions[constant].variable].value is constant
