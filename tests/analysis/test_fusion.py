"""Fused operations: which nodes run as one loop, and which values are written to memory."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from meshwright.compiler.analysis.fusion import FusedOperation, fused_operations, materialised_values
from meshwright.compiler.analysis.op_kind import is_fusible
from meshwright.compiler.ir import Graph, Value
from tests.frontend.programs import f32, traced


def operations(fun: Any, *args: Any) -> list[FusedOperation]:
    """The distinct operations of a function, by first node."""
    return list(dict.fromkeys(fused_operations(traced(fun, *args).graph).values()))


def ops(operation: FusedOperation) -> list[str]:
    return [node.op for node in operation.nodes]


def written(fun: Any, *args: Any) -> set[str]:
    """Names of the operations whose results lie in memory."""
    graph = traced(fun, *args).graph
    found = materialised_values(graph)
    return {n.op for n in graph.nodes if not found.isdisjoint(n.results)}


def softmax(x: jax.Array) -> jax.Array:
    shifted = jnp.exp(x - x.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale


def mlp(x: jax.Array, w: jax.Array, v: jax.Array) -> jax.Array:
    return jnp.tanh(jnp.exp(x @ w) * 2.0) @ v


def adam(state: Any, gradients: Any, rate: jax.Array) -> Any:
    """An update with a shared count, a shared rate and a global norm."""
    norm_squared = sum(jnp.sum(g**2) for g in gradients.values())
    factor = rate * lax.rsqrt(norm_squared + 1.0) / (1.0 - 0.9 ** (state["count"] + 1.0))
    moments = {k: 0.9 * state["m"][k] + 0.1 * g for k, g in gradients.items()}
    values = {k: state["w"][k] - factor * m for k, m in moments.items()}
    return {"count": state["count"] + 1.0, "m": moments, "w": values}


def adam_arguments() -> tuple[Any, Any, Any]:
    tree = {"a": f32(8, 4), "b": f32(8, 4)}
    return {"count": f32(), "m": tree, "w": tree}, tree, f32()


PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "softmax": (softmax, (f32(8, 4),)),
    "norm": (norm, (f32(8, 4), f32(4))),
    "mlp": (mlp, (f32(8, 8), f32(8, 8), f32(8, 8))),
    "mlp-gradient": (jax.grad(lambda *a: mlp(*a).sum(), (1, 2)), (f32(8, 8), f32(8, 8), f32(8, 8))),
    "softmax-gradient": (jax.grad(lambda x: (softmax(x) ** 2).sum()), (f32(8, 4),)),
    "adam": (adam, adam_arguments()),
}


def test_an_elementwise_chain_is_one_operation() -> None:
    (chain,) = operations(lambda x, y: jnp.tanh(jnp.exp(x) * 2.0) + y * x, f32(8, 4), f32(8, 4))
    assert ops(chain) == ["exp", "mul", "tanh", "mul", "add"]
    assert chain.anchor.op == "add"
    assert chain.materialised == {chain.results[-1]}
    # Both uses of x are one read.
    assert [v.path for v in chain.operands] == ["x", "y"]
    assert chain.wires == ((0,), (None, None), (None,), (1, 0), (None, None))


def test_a_matmul_reads_one_value_in_two_layouts() -> None:
    (square,) = operations(lambda x: x @ x, f32(8, 8))
    assert [v.path for v in square.operands] == ["x", "x"]
    assert square.wires == ((0, 1),)


def test_a_loop_reads_a_value_once_for_each_order_of_its_dims() -> None:
    (loop,) = operations(lambda x: (x + x.T) * x, f32(8, 8))
    assert [v.path for v in loop.operands] == ["x", "x"]
    assert loop.wires == ((0,), (1, None), (None, 1))


def test_a_value_read_in_two_orders_ends_a_loop() -> None:
    fun = lambda x: (lambda y: y - y.T)(jnp.exp(x))  # noqa: E731
    assert [ops(o) for o in operations(fun, f32(8, 8))] == [["exp"], ["transpose", "sub"]]
    assert written(fun, f32(8, 8)) == {"exp", "sub"}


def test_a_value_read_in_one_other_order_ends_none() -> None:
    (loop,) = operations(lambda x, y: (lambda z: z.T + z.T * y)(jnp.exp(x)), f32(8, 4), f32(4, 8))
    assert ops(loop) == ["exp", "transpose", "transpose", "mul", "add"]


def test_a_matmul_ends_a_loop() -> None:
    found = operations(mlp, f32(8, 8), f32(8, 8), f32(8, 8))
    assert [ops(o) for o in found] == [["dot_general"], ["exp", "mul", "tanh"], ["dot_general"]]
    assert written(mlp, f32(8, 8), f32(8, 8), f32(8, 8)) == {"dot_general", "tanh"}


def test_a_reduction_reads_its_chain_without_memory() -> None:
    fun = lambda x: jnp.exp(x).sum()  # noqa: E731
    assert written(fun, f32(8)) == {"reduce_sum"}
    chain, reduction = operations(fun, f32(8))
    assert not chain.materialised
    assert ops(reduction) == ["reduce_sum"]
    assert reduction.operands == chain.results


def test_a_matmul_reads_its_chain_from_memory() -> None:
    assert written(lambda x, w: jnp.exp(x) @ w, f32(4, 4), f32(4, 4)) == {"exp", "dot_general"}


@pytest.mark.parametrize(("distance", "kept"), [(40, False), (60, True)])
def test_a_residual_read_far_away_is_written(distance: int, kept: bool) -> None:
    def fun(x: Any) -> Any:
        residual = jnp.exp(x)
        for _ in range(distance):
            x = jnp.sin(x)
        return x * residual

    assert ("exp" in written(fun, f32(8))) is kept
    assert len(operations(fun, f32(8))) == (2 if kept else 1)


def test_scalars_are_written() -> None:
    fun = lambda x, r: x * (jnp.sqrt(r) + 1.0)  # noqa: E731
    assert written(fun, f32(8), f32()) == {"sqrt", "add", "mul"}
    assert [ops(o) for o in operations(fun, f32(8), f32())] == [["sqrt"], ["add"], ["mul"]]


def test_what_enters_and_leaves_lies_in_memory() -> None:
    table = jnp.ones(8)
    graph = traced(lambda x: (jnp.exp(x) + table, jnp.sin(jnp.exp(x))), f32(8)).graph
    outputs = {o for o in graph.outputs if isinstance(o, Value)}
    assert {*graph.inputs, *graph.constants, *outputs} <= materialised_values(graph)


def test_an_output_read_again_starts_a_loop_of_its_own() -> None:
    found = operations(lambda x: (lambda y: (y, jnp.sin(y)))(jnp.exp(x)), f32(8))
    assert [ops(o) for o in found] == [["exp"], ["sin"]]


def test_effects_are_not_fused() -> None:
    def fun(x: Any) -> Any:
        y = jnp.exp(x)
        jax.debug.callback(lambda v: None, y)
        return jnp.sin(y)

    assert "exp" in written(fun, f32(8))
    assert all(len(o.nodes) == 1 for o in operations(fun, f32(8)))


def test_regions_stand_alone() -> None:
    found = operations(lambda x: jnp.sin(jax.checkpoint(lambda v: jnp.exp(v) * 2.0)(jnp.cos(x))), f32(8))
    assert [len(o.nodes) for o in found] == [1, 1, 1]
    assert len(found[1].nodes[0].regions) == 1


def test_updates_of_two_parameters_are_not_merged() -> None:
    """They share the count, the rate and the global norm, which are scalars."""
    found = operations(adam, *adam_arguments())
    for operation in found:
        paths = {v.path for v in (*operation.operands, *operation.results)}
        leaves = {p.rsplit("/", 1)[1] for p in paths if "/" in p and not p.endswith("count")}
        assert len(leaves) <= 1, paths
    arrays = [o for o in found if "sub" in ops(o) and o.results[-1].type.rank]
    assert len(arrays) == 2


def _closed(graph: Graph, found: dict[Value, FusedOperation], operation: FusedOperation) -> None:
    """A fused reader of an unwritten value is in the loop that makes it."""
    memory = materialised_values(graph)
    for node in operation.nodes:
        for operand in node.operands:
            if isinstance(operand, Value) and is_fusible(node) and operand not in memory:
                assert found[operand] is operation, (node.op, operand)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_of_one_loop_need_no_reshard(name: str) -> None:
    fun, args = PROGRAMS[name]
    graph = traced(fun, *args).graph
    by_node = fused_operations(graph)
    assert set(by_node) == set(graph.nodes)
    made = {r: by_node[n] for n in graph.nodes for r in n.results}
    for operation in set(by_node.values()):
        assert set(operation.operands).isdisjoint(operation.results)
        assert [n.index for n in operation.nodes] == sorted(n.index for n in operation.nodes)
        assert all(by_node[n] is operation for n in operation.nodes)
        assert operation.materialised == materialised_values(graph).intersection(operation.results)
        _closed(graph, made, operation)


@pytest.mark.parametrize("name", PROGRAMS)
def test_wires_lead_to_the_values_read(name: str) -> None:
    fun, args = PROGRAMS[name]
    for operation in operations(fun, *args):
        for node, wires in zip(operation.nodes, operation.wires, strict=True):
            for operand, wire in zip(node.operands, wires, strict=True):
                if wire is not None:
                    assert operation.operands[wire] is operand
                elif isinstance(operand, Value):
                    assert operand in operation.results
