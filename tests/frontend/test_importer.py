"""What becomes of the jaxpr: inlining, regions, constants, dead code, effects, source lines."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from meshwright.compiler.ir import Literal, Node, Program
from tests.frontend.programs import f32, ops, traced


@jax.custom_jvp
def jvp_square(x: Any) -> Any:
    return x * x


jvp_square.defjvp(lambda primals, tangents: (jvp_square(primals[0]), 2.0 * primals[0] * tangents[0]))


@jax.custom_vjp
def vjp_sine(x: Any) -> Any:
    return jnp.sin(x)


vjp_sine.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x),))


def only(program: Program, op: str) -> Node:
    (node,) = [n for n in program.graph.nodes if n.op == op]
    return node


@pytest.mark.parametrize(
    ("fun", "expected"),
    [
        (jax.jit(lambda x: jnp.sin(x)), ["sin"]),
        (lambda x: jax.jit(jax.jit(jnp.sin))(x), ["sin"]),
        (jvp_square, ["mul"]),
        (vjp_sine, ["sin"]),
        (lambda x: jax.jvp(jvp_square, (x,), (x,))[1], ["mul", "mul"]),
        (lambda x: jax.vjp(vjp_sine, x)[1](x)[0], ["cos", "mul"]),
    ],
    ids=["jit", "nested-jit", "custom_jvp", "custom_vjp", "jvp-rule", "vjp-rule"],
)
def test_calls_are_inlined(fun: Any, expected: list[str]) -> None:
    assert ops(traced(fun, f32(4))) == expected


def test_a_function_inlined_twice_defines_its_values_twice() -> None:
    """The same jaxpr object is walked twice; ``traced`` verifies that nothing is defined twice."""
    double = jax.jit(lambda x: jnp.sin(x) * 2.0)
    program = traced(lambda x: double(double(x)), f32(4))
    assert ops(program) == ["sin", "mul", "sin", "mul"]
    first, last = program.graph.nodes[1], program.graph.nodes[2]
    assert last.operands == first.results


def test_remat_stays_a_region() -> None:
    program = traced(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))), f32(4))
    node = only(program, "remat2")
    assert [n.op for n in node.regions[0].nodes] == ["sin", "sin"]
    assert node.params["prevent_cse"] is True


def test_gradient_of_remat_recomputes_inside_a_region() -> None:
    block = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    program = traced(jax.grad(lambda x: block(x).sum()), f32(4))
    (backward,) = [n for n in program.graph.nodes if n.op == "remat2" and n.params["differentiated"]]
    assert "cos" in [n.op for n in backward.regions[0].nodes]


def test_scan_has_its_body_as_region() -> None:
    program = traced(lambda x, ys: lax.scan(lambda c, y: (c + y, c * y), x, ys), f32(4), f32(3, 4))
    scan = only(program, "scan")
    (body,) = scan.regions
    assert [v.type.shape for v in body.inputs] == [(4,), (4,)]
    assert [v.type.shape for v in scan.results] == [(4,), (3, 4)]
    assert scan.params["length"] == 3


def test_while_has_condition_and_body_as_regions() -> None:
    limit = jnp.float32(9.0)
    program = traced(lambda x: lax.while_loop(lambda c: c.sum() < limit, lambda c: c * 2.0, x), f32(4))
    condition, body = only(program, "while").regions
    assert [n.op for n in condition.nodes] == ["reduce_sum", "lt"]
    assert [n.op for n in body.nodes] == ["mul"]


def test_cond_has_its_branches_as_regions() -> None:
    branches = [lambda x: x, lambda x: -x, lambda x: x * 2.0]
    program = traced(lambda i, x: lax.switch(i, branches, x), jax.ShapeDtypeStruct((), "int32"), f32(4))
    cond = only(program, "cond")
    assert [[n.op for n in r.nodes] for r in cond.regions] == [[], ["neg"], ["mul"]]


def test_nested_regions() -> None:
    def inner(c: Any, _: Any) -> Any:
        return lax.cond(c.sum() > 0, jnp.sin, jnp.cos, c), None

    program = traced(
        lambda x: lax.scan(lambda c, _: (lax.scan(inner, c, None, 2)[0], None), x, None, 3)[0], f32(4)
    )
    assert ops(program)[:2] == ["scan", "scan"]
    assert {"cond", "sin", "cos"} <= set(ops(program))


def test_closed_over_arrays_are_constants() -> None:
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    program = traced(lambda x: x @ table, f32(4, 2))
    (constant,) = program.graph.constants
    assert constant.type.shape == (2, 3)
    np.testing.assert_array_equal(program.graph.constant_values[0], table)


def test_constants_of_an_inlined_call_reach_its_graph() -> None:
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    inner = jax.jit(lambda x: x @ table)
    program = traced(lambda x: lax.scan(lambda c, _: (c + inner(c).sum(), None), x, None, 2)[0], f32(4, 2))
    everywhere = [*program.graph.constant_values, *only(program, "scan").regions[0].constant_values]
    assert any(np.array_equal(v, table) for v in everywhere)


def test_scalars_in_the_program_are_literals() -> None:
    program = traced(lambda x: x * 2.5, f32(4))
    literal = only(program, "mul").operands[1]
    assert isinstance(literal, Literal)
    assert float(literal.value) == 2.5


def test_a_result_may_be_a_literal() -> None:
    program = traced(lambda x: 1.5, f32(4))
    assert isinstance(program.graph.outputs[0], Literal)


def test_dead_code_is_dropped() -> None:
    def fun(x: Any) -> Any:
        unused = jnp.sin(x)
        jnp.cos(unused)
        return x * 2.0

    assert ops(traced(fun, f32(4))) == ["mul"]


def test_effects_keep_their_operation_and_what_it_reads() -> None:
    def fun(x: Any) -> Any:
        jax.debug.callback(lambda v: None, jnp.sin(x))
        return x * 2.0

    program = traced(fun, f32(4))
    assert ops(program)[0] == "sin"
    (effect,) = [n for n in program.graph.nodes if n.effectful]
    assert "callback" in effect.op
    assert not effect.results


def test_effects_keep_the_loop_they_are_in() -> None:
    def body(c: Any, _: Any) -> Any:
        jax.debug.callback(lambda v: None, c)
        return c * 2.0, None

    def fun(x: Any) -> Any:
        lax.scan(body, x, None, 2)
        return x

    assert only(traced(fun, f32(4)), "scan").effectful


def test_sources_point_to_the_users_lines() -> None:
    def fun(x: Any) -> Any:
        y = jnp.sin(x)
        return lax.scan(lambda c, _: (jnp.tanh(c), None), y, None, 2)[0]

    lines, start = inspect.getsourcelines(fun)
    program = traced(fun, f32(4))
    sine, scan = program.graph.nodes
    (tanh,) = scan.regions[0].nodes
    for node, text in ((sine, "jnp.sin"), (tanh, "jnp.tanh")):
        assert node.source is not None
        assert Path(node.source.file).name == Path(__file__).name
        assert text in lines[node.source.line - start]
    assert sine.source.function.endswith("fun")


def test_sources_inside_a_library_point_to_the_caller() -> None:
    def fun(x: Any) -> Any:
        return jax.nn.softmax(x)

    sources = {str(n.source) for n in traced(fun, f32(4)).graph.nodes}
    line = inspect.getsourcelines(fun)[1] + 1
    assert sources == {f"{Path(__file__)}:{line}"}


def test_importing_keeps_the_meaning() -> None:
    """The graph evaluated node by node equals the function."""
    from meshwright.compiler.jax_compat import bind

    def fun(x: Any) -> Any:
        return jvp_square(x) + vjp_sine(jax.jit(jnp.cos)(x)) / 3.0

    program = traced(fun, f32(4))
    x = np.linspace(0.0, 1.0, 4, dtype=np.float32)
    env: dict[Any, Any] = {program.graph.inputs[0]: x}
    for node in program.graph.nodes:
        read = [o.value if isinstance(o, Literal) else env[o] for o in node.operands]
        env.update(zip(node.results, bind(node.primitive, read, node.params), strict=True))
    np.testing.assert_allclose(env[program.graph.outputs[0]], fun(x), rtol=1e-6)
