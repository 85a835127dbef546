"""How loops, branches and remat regions enter the model: weights, shared layouts, lifetimes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from meshwright.compiler.frontend import TraceOptions
from meshwright.compiler.ir import Value, walk_nodes
from meshwright.compiler.planner.model import Model, Site
from tests.planner.models import SQUARE, built, deciders, f32, model_of, reads_by, traced, usage


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


def _repeated_product() -> tuple[Any, Model]:
    """A scan whose weights ``w`` stay and whose carry ``h`` changes, both given away."""

    def fun(h: Any, w: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.tanh(c @ w), None), h, None, 4)[0]

    program = traced(fun, f32(64, 512), f32(*SQUARE), options=TraceOptions(donate_argnums=(0, 1)))
    return program, built(program)


def test_what_a_loop_only_reads_stays_until_its_last_trip() -> None:
    _, model = _repeated_product()
    last = max(i for i, name in enumerate(model.live_names) if name.startswith("tanh"))
    start = model.live_names.index(next(name for name in model.live_names if name.startswith("scan")))
    h, w = model.inputs
    assert usage(model, w).end == last + 1
    assert usage(model, h).end == start + 1
    (carry,) = [i for i, v in enumerate(model.variables) if v.name.startswith("scan carry")]
    assert usage(model, carry).end >= last + 1


def test_what_a_loop_only_reads_is_held_once() -> None:
    _, model = _repeated_product()
    assert len([u for u in model.problem.usages if u.bytes[0] == 4 * 512 * 512]) == 1
    # A resharded copy lives as long as the loop.
    last = max(i for i, name in enumerate(model.live_names) if name.startswith("tanh"))
    (inside,) = [i for i, v in enumerate(model.variables) if v.name.startswith("scan input")]
    (copy,) = [u for u in model.problem.edge_usages if model.problem.edges[u.edge].j == inside]
    assert copy.end == last + 1


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
    assert [r.weight for r in into] == pytest.approx([1 / 3] * 3)


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
