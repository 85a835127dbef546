"""The model of small programs: variables, edges, what is read where, and when values are alive."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from meshwright.compiler.planner.layout import Layout
from meshwright.compiler.planner.model import Site
from tests.planner.models import DONATE, SQUARE, built, deciders, f32, model_of, reads_by, traced, usage


def mlp(x: Any, w: Any, v: Any) -> Any:
    return jnp.tanh(jnp.exp(x @ w) * 2.0) @ v


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
    def step(state: Any, x: Any) -> Any:
        return {"b": state["b"] * x.sum(), "w": state["w"] * 0.5}, x.sum()

    program = traced(step, {"b": f32(8), "w": f32(64, 8)}, f32(64))
    model = built(program)
    assert program.carried == (0, 1, None)
    *state, metric = [r for r in model.reads if r.sites[0].node == -1]
    assert [r.reader for r in state] == list(model.inputs[:2])
    for read, value in zip(state, program.graph.inputs, strict=False):
        assert read.targets == model.definitions[value].layouts
    assert model.variables[metric.reader].name == "result 1"
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


def test_a_value_that_one_operation_reads_twice_is_moved_once() -> None:
    """The product of an array with itself: wanted in one layout by both operands, one copy serves both."""
    model = model_of(lambda x: jnp.einsum("bnd,bmd->bnm", x, x) @ jnp.exp(x), f32(8, 8, 8))
    product = deciders(model, "dot_general")[0]
    first, second = reads_by(model, product)
    for k, strategy in enumerate(model.variables[product].strategies):
        same = strategy.operands[0] == strategy.operands[1]
        assert second.is_served(k) == same
        assert not first.is_served(k)
        assert first.edge is not None
        assert second.edge is not None
        paid, again = (model.problem.edges[r.edge].cost[:, k] for r in (first, second))
        assert np.array_equal(again, np.zeros_like(paid)) if same else again.any()


def test_a_loop_writes_over_what_it_reads_last() -> None:
    model = model_of(lambda x, w: jnp.exp(x @ w) @ w, f32(*SQUARE), f32(*SQUARE))
    first, _ = deciders(model, "dot_general")
    (loop,) = deciders(model, "exp")
    assert (usage(model, first).start, usage(model, first).end) == (1, 2)
    assert usage(model, loop).start == 2


def test_one_operand_gives_its_place_to_one_result() -> None:
    def fun(x: Any, w: Any) -> Any:
        product = x @ w
        return jnp.exp(product) @ w, product @ w

    model = model_of(fun, f32(*SQUARE), f32(*SQUARE))
    product, *_ = deciders(model, "dot_general")
    # The second product reads it after the loop, so the loop needs memory of its own.
    assert usage(model, product).end > usage(model, deciders(model, "exp")[0]).start + 1


def test_what_is_made_again_takes_no_memory_but_keeps_its_source() -> None:
    def fun(x: Any, w: Any) -> Any:
        product = x @ w
        double, shifted = product * 2.0, product + 1.0
        mixed = double * shifted
        for _ in range(50):
            mixed = jnp.sin(mixed)
        return (mixed * double * shifted).sum()

    model = model_of(fun, f32(*SQUARE), f32(*SQUARE))
    (product,) = deciders(model, "dot_general")
    late = model.live_names.index(next(n for n in reversed(model.live_names) if n.startswith("mul")))
    assert usage(model, product).end >= late
    written = {model.variables[u.node].name.split(" ")[0] for u in model.problem.usages}
    assert "add" not in written


def test_a_value_read_late_by_its_loop_stays_until_then() -> None:
    model = model_of(lambda x: jnp.sin(jnp.cos(jnp.exp(x)) + x), f32(64), options=DONATE)
    assert [n.split(" ")[0] for n in model.live_names] == ["arguments", "exp", "cos", "add", "sin"]
    (read,) = reads_by(model, deciders(model, "sin")[0])
    assert read.sites == (Site(0, -1, 0), Site(2, -1, 1))
    x = usage(model, model.inputs[0])
    assert (x.start, x.end) == (0, 4)


def test_results_stay_to_the_end() -> None:
    model = model_of(lambda x: (x @ x, jnp.exp(x) @ x), f32(*SQUARE))
    first, second = deciders(model, "dot_general")
    assert (usage(model, first).start, usage(model, first).end) == (1, model.problem.num_points)
    assert usage(model, second).end == model.problem.num_points


def test_bytes_are_those_of_one_device() -> None:
    model = model_of(lambda x: jnp.exp(x), f32(64, 3))
    whole, split = usage(model, model.inputs[0]).bytes
    assert (whole, split) == (64 * 3 * 4, 64 * 3 * 4 / 8)


def test_copies_take_memory_where_they_are_read() -> None:
    model = model_of(mlp, f32(*SQUARE), f32(*SQUARE), f32(*SQUARE))
    by_edge = {u.edge: u for u in model.problem.edge_usages}
    assert {(u.start, u.end) for u in (by_edge[0], by_edge[1])} == {(1, 2)}
    assert all(u.bytes.max() <= 4 * np.prod(SQUARE) for u in by_edge.values())


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


def test_constants_stay_to_the_end() -> None:
    table = np.ones(SQUARE, np.float32)
    program = traced(lambda x: jnp.exp(x @ table) @ x, f32(*SQUARE))
    model = built(program)
    (constant,) = program.graph.constants
    assert usage(model, model.definitions[constant].variable).end == model.problem.num_points
