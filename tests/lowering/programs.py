"""Programs with every kind of region, with pins that make their plans split something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

MESH = {"data": 2, "model": 4}


@jax.custom_vjp
def clipped(x: Any) -> Any:
    """Identity whose gradient is clipped."""
    return x


clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -0.1, 0.1),))


@dataclass(frozen=True)
class Example:
    """A function with arguments and pins.

    Attributes:
        fun: the function.
        shapes: shapes of its arguments.
        pins: shardings forced on them.
        op: an operation with a region that must be found again in what is lowered, if any.
    """

    fun: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    pins: dict[str, P]
    op: str = ""

    def arguments(self) -> list[np.ndarray]:
        """Small random arrays."""
        rng = np.random.default_rng(0)
        return [rng.uniform(-1, 1, shape).astype(np.float32) for shape in self.shapes]


def _mlp(x: Any, w: Any, v: Any) -> Any:
    return jax.nn.gelu(x @ w) @ v


def _scan(x: Any, ws: Any) -> Any:
    def layer(h: Any, w: Any) -> Any:
        h = jnp.tanh(h @ w)
        return h, h.sum(0)

    return lax.scan(layer, x, ws)


def _scan_with_constant(x: Any, ws: Any) -> Any:
    table = jnp.asarray(np.linspace(0, 1, 16, dtype=np.float32))
    return lax.scan(lambda h, w: (jnp.tanh(h @ w) + table, None), x, ws)[0]


def _while(x: Any, w: Any) -> Any:
    def more(carry: Any) -> Any:
        return carry[0] < 3

    def body(carry: Any) -> Any:
        return carry[0] + 1, jnp.tanh(carry[1] @ w)

    return lax.while_loop(more, body, (0, x))[1]


def _cond(x: Any, w: Any) -> Any:
    table = jnp.asarray(np.linspace(0, 1, 16, dtype=np.float32))
    return lax.cond(x.sum() > 0, lambda h: h @ w, lambda h: h * 2.0 + table, x)


def _remat_gradient(x: Any, w: Any) -> Any:
    @jax.checkpoint
    def block(h: Any, w: Any) -> Any:
        return jnp.tanh(jnp.tanh(h @ w) @ w)

    return jax.value_and_grad(lambda w: (block(block(x, w), w) ** 2).mean())(w)


def _remat_in_scan(x: Any, ws: Any) -> Any:
    block = jax.checkpoint(lambda h, w: (jnp.tanh(h @ w), None))
    return jax.grad(lambda ws: (lax.scan(block, x, ws)[0] ** 2).mean())(ws)


def _custom_vjp(x: Any, w: Any) -> Any:
    return jax.grad(lambda w: (clipped(x @ w) ** 2).mean())(w)


def _batch_norm(x: Any, scale: Any) -> Any:
    mean, variance = x.mean(0), x.var(0)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale


def _two_orders(x: Any) -> Any:
    y = jnp.exp(x)
    return x + x.T, y - y.T


EXAMPLES = {
    "mlp": Example(
        _mlp, ((8, 16), (16, 32), (32, 16)), {"x": P("data"), "w": P(None, "model"), "v": P("model")}
    ),
    "mlp-contracted": Example(
        _mlp, ((8, 16), (16, 32), (32, 16)), {"x": P(None, "model"), "w": P("model"), "v": P("data", "model")}
    ),
    "two-orders": Example(_two_orders, ((16, 16),), {"x": P("data", "model")}),
    "scan": Example(_scan, ((8, 16), (3, 16, 16)), {"x": P("data"), "ws": P(None, None, "model")}, "scan"),
    "scan-carry-split": Example(
        _scan, ((8, 16), (3, 16, 16)), {"x": P("data", "model"), "ws": P(None, "model")}, "scan"
    ),
    "scan-constant": Example(
        _scan_with_constant, ((8, 16), (3, 16, 16)), {"x": P("data"), "ws": P(None, "model")}, "scan"
    ),
    "while": Example(_while, ((8, 16), (16, 16)), {"x": P("data"), "w": P("model")}, "while"),
    "cond": Example(_cond, ((8, 16), (16, 16)), {"x": P("data"), "w": P(None, "model")}, "cond"),
    "remat": Example(_remat_gradient, ((8, 16), (16, 16)), {"x": P("data"), "w": P(None, "model")}, "remat2"),
    "remat-scan": Example(
        _remat_in_scan, ((8, 16), (3, 16, 16)), {"x": P("data"), "ws": P(None, None, "model")}, "remat2"
    ),
    "custom-vjp": Example(_custom_vjp, ((8, 16), (16, 16)), {"x": P("data"), "w": P("model")}),
    "batch-norm": Example(_batch_norm, ((8, 16), (16,)), {"x": P("data", "model"), "scale": P()}),
}
