"""Opaque calls under test: Pallas kernels in interpret mode, callbacks, and how their nodes are got."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.ir import Node
from meshwright.compiler.rules import RuleBook

ROWS = 2


def blocks(columns: int) -> pl.BlockSpec:
    """Two rows at each grid point."""
    return pl.BlockSpec((ROWS, columns), lambda i: (i, 0))


def softmax(x):
    """A row-wise kernel in blocks of two rows."""

    def kernel(x_ref, o_ref):
        e = jnp.exp(x_ref[...])
        o_ref[...] = e / jnp.sum(e, axis=1, keepdims=True)

    rows, columns = x.shape
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(
        kernel,
        out_shape=shape,
        grid=(rows // ROWS,),
        in_specs=[blocks(columns)],
        out_specs=blocks(columns),
        interpret=True,
        name="softmax",
    )(x)


def matmul(x, y):
    """A kernel that sums over a grid axis of blocks of four."""

    def kernel(x_ref, y_ref, o_ref):
        @pl.when(pl.program_id(1) == 0)
        def _():
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...] @ y_ref[...]

    (m, k), n = x.shape, y.shape[1]
    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        grid=(m // 2, k // 4),
        in_specs=[pl.BlockSpec((2, 4), lambda i, j: (i, j)), pl.BlockSpec((4, n), lambda i, j: (j, 0))],
        out_specs=pl.BlockSpec((2, n), lambda i, j: (i, 0)),
        interpret=True,
        name="matmul",
    )(x, y)


def doubled(x):
    """A callback into Python."""

    def double(x):
        return np.asarray(x) * 2

    return jax.pure_callback(double, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def array(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).uniform(0.5, 1.5, shape), jnp.float32)


def node_of(fun: Callable[..., Any], *args: Any) -> Node:
    graph = trace_program(fun, TraceOptions(), args, {}).graph
    (node,) = [n for n in graph.nodes if n.op in ("pallas_call", "ffi_call", "custom_partitioning")] or [
        n for n in graph.nodes if "callback" in n.op or n.op == "sort"
    ]
    return node


def rule_text(fun: Callable[..., Any], *args: Any) -> str:
    return str(RuleBook().rule(node_of(fun, *args)))
