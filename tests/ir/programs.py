"""Programs for the IR's tests: one with every kind of region, and graphs put together by hand."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.ir import Graph, Node, Operand, Program, Source, TensorType, Value

F32 = TensorType((4,), "float32", 4)
SOURCE = Source("model.py", 7, "step")


def layered_step(state: dict[str, Any], xs: jax.Array) -> tuple[dict[str, Any], jax.Array]:
    """A scan whose body holds a remat region and a cond."""

    @jax.checkpoint
    def block(h: jax.Array) -> jax.Array:
        return jnp.tanh(h @ state["w"])

    def body(h: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        h = jax.lax.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - x, block(h))
        return h, h.sum()

    carry, sums = jax.lax.scan(body, state["h"], xs)
    return {"h": carry, "w": state["w"]}, sums


def layered_program() -> Program:
    """``layered_step`` traced on small shapes, the state donated."""
    struct = jax.ShapeDtypeStruct
    state = {"w": struct((4, 4), "float32"), "h": struct((4,), "float32")}
    return trace_program(layered_step, TraceOptions(donate_argnums=0), (state, struct((3, 4), "float32")), {})


def node(
    op: str,
    operands: tuple[Operand, ...],
    results: tuple[Value, ...],
    regions: tuple[Graph, ...] = (),
    **params: Any,
) -> Node:
    """A node at ``model.py:7`` without a primitive behind it."""
    return Node(0, op, None, params, operands, results, regions, SOURCE)


def graph(inputs: tuple[Value, ...], nodes: tuple[Node, ...], outputs: tuple[Operand, ...]) -> Graph:
    """A graph without constants."""
    return Graph(inputs, (), (), nodes, outputs)
