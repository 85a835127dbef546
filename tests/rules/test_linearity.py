"""Linear groups against arithmetic: what passes a pending sum on must be additive over the group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.ir import Literal, Node
from meshwright.compiler.jax_compat import bind
from meshwright.compiler.rules.linearity import linear_groups

X = (4, 6)

LINEAR: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "neg": (lax.neg, (X,)),
    "transpose": (lambda x: lax.transpose(x, (1, 0)), (X,)),
    "reshape": (lambda x: lax.reshape(x, (2, 12)), (X,)),
    "broadcast_in_dim": (lambda x: lax.broadcast_in_dim(x, (3, *X), (1, 2)), (X,)),
    "squeeze": (lambda x: lax.squeeze(x, (1,)), ((4, 1),)),
    "reduce_sum": (lambda x: lax.reduce_sum(x, (0,)), (X,)),
    "slice": (lambda x: lax.slice(x, (1, 0), (3, 6)), (X,)),
    "rev": (lambda x: lax.rev(x, (0,)), (X,)),
    "convert_element_type": (lambda x: lax.convert_element_type(x, jnp.bfloat16), (X,)),
    "add": (lax.add, (X, X)),
    "sub": (lax.sub, (X, X)),
    "concatenate": (lambda x, y: lax.concatenate((x, y), 0), (X, X)),
    "mul": (lambda x: x * 3.0, (X,)),
    "div": (lambda x: x / 3.0, (X,)),
    "copy": (lax.copy_p.bind, (X,)) if hasattr(lax, "copy_p") else (jnp.copy, (X,)),
}

NOT_LINEAR: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "exp": (lax.exp, (X,)),
    "abs": (lax.abs, (X,)),
    "add": (lambda x: x + 1.0, (X,)),
    "sub": (lambda x: 1.0 - x, (X,)),
    "mul": (lax.mul, (X, X)),
    "div": (lambda x: 2.0 / x, (X,)),
    "max": (lax.max, (X, X)),
    "reduce_max": (lambda x: lax.reduce_max(x, (0,)), (X,)),
    "convert_element_type": (lambda x: lax.convert_element_type(x, jnp.int32), (X,)),
}


def _node(name: str, fun: Callable[..., Any], shapes: tuple[tuple[int, ...], ...]) -> Node:
    args = [jax.ShapeDtypeStruct(s, "float32") for s in shapes]
    (node,) = [n for n in trace_program(fun, TraceOptions(), args, {}).graph.nodes if n.op == name]
    return node


def _apply(node: Node, arrays: list[Any]) -> np.ndarray:
    (result,) = bind(node.primitive, arrays, node.params)
    return np.asarray(result, np.float32)


def _draw(node: Node, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    drawn = [
        jnp.asarray(o.value)
        if isinstance(o, Literal)
        else rng.integers(-8, 8, o.type.shape).astype(o.type.dtype)
        for o in node.operands
    ]
    return drawn


@pytest.mark.parametrize("name", LINEAR)
def test_groups_are_additive(name: str) -> None:
    node = _node(name, *LINEAR[name])
    groups = linear_groups(node)
    assert groups, f"{name} passes a pending sum on, but has no group"
    one, other = _draw(node, 0), _draw(node, 1)
    for group in groups:
        assert not any(isinstance(node.operands[i], Literal) for i in group)
        summed = [a + b if i in group else a for i, (a, b) in enumerate(zip(one, other, strict=True))]
        second = [b if i in group else a for i, (a, b) in enumerate(zip(one, other, strict=True))]
        np.testing.assert_allclose(
            _apply(node, summed), _apply(node, one) + _apply(node, second), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_the_rest_has_no_group(name: str) -> None:
    assert linear_groups(_node(name, *NOT_LINEAR[name])) == ()


def test_integer_division_is_not_additive() -> None:
    args = [jax.ShapeDtypeStruct(X, "int32")]
    (node,) = trace_program(lambda x: lax.div(x, np.int32(2)), TraceOptions(), args, {}).graph.nodes
    assert linear_groups(node) == ()


def test_integers_are_not_cast_as_sums() -> None:
    fun = lambda x: lax.convert_element_type(x, jnp.float32)  # noqa: E731
    args = [jax.ShapeDtypeStruct(X, "int32")]
    (node,) = trace_program(fun, TraceOptions(), args, {}).graph.nodes
    assert linear_groups(node) == ()
