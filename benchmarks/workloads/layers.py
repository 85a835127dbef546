"""Layers that several families share: plain functions of a tree of parameters and an array."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

Params = dict[str, Any]

NHWC = ("NHWC", "HWIO", "NHWC")


def init_params(key: jax.Array, shapes: Any) -> Any:
    """Makes parameters of a tree of shapes.

    Args:
        key: random key.
        shapes: tuples of dims as leaves.

    Returns:
        Arrays in the same tree. A vector named ``scale`` is ones, any other zeros; the rest is normal, its
        deviation one over the root of all dims but the last.
    """
    leaves, tree = jax.tree_util.tree_flatten_with_path(shapes, is_leaf=_is_shape)
    keys = jax.random.split(key, len(leaves))
    return tree.unflatten([_init_leaf(k, path, shape) for k, (path, shape) in zip(keys, leaves, strict=True)])


def _is_shape(x: Any) -> bool:
    return isinstance(x, tuple) and all(isinstance(n, int) for n in x)


def _init_leaf(key: jax.Array, path: tuple[Any, ...], shape: tuple[int, ...]) -> jax.Array:
    if len(shape) > 1:
        return math.prod(shape[:-1]) ** -0.5 * jax.random.normal(key, shape)
    return jnp.ones(shape) if getattr(path[-1], "key", None) == "scale" else jnp.zeros(shape)


def norm_shapes(width: int) -> Params:
    """Shapes of what ``norm`` and ``group_norm`` take."""
    return {"scale": (width,), "bias": (width,)}


def norm(params: Params, x: jax.Array) -> jax.Array:
    """Layer norm over the last dim, in float32 (Ba et al. 2016)."""
    return (standardized(x) * params["scale"] + params["bias"]).astype(x.dtype)


def standardized(x: jax.Array) -> jax.Array:
    """Layer norm without scale and bias, float32."""
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, -1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred**2, -1, keepdims=True) + 1e-5)


def group_norm(params: Params, x: jax.Array, groups: int) -> jax.Array:
    """Group norm of NHWC images (Wu and He 2018)."""
    parts = x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups)
    centred = parts - jnp.mean(parts, (1, 2, 4), keepdims=True)
    variance = jnp.mean(centred**2, (1, 2, 4), keepdims=True)
    return (centred * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape) * params["scale"] + params["bias"]


def attention_shapes(width: int, heads: int) -> Params:
    """Shapes of what ``attention`` takes."""
    into = (width, heads, width // heads)
    return {"query": into, "key": into, "value": into, "out": (heads, width // heads, width)}


def attention(
    params: Params, x: jax.Array, memory: jax.Array, adjust: Callable[[jax.Array], jax.Array] | None = None
) -> jax.Array:
    """Multi-head attention (Vaswani et al. 2017), softmax in float32.

    Args:
        params: ``query``, ``key``, ``value`` [width, heads, head] and ``out`` [heads, head, width].
        x: what asks, [batch, time, width].
        memory: what answers, [batch, other time, width].
        adjust: of the scores [batch, heads, time, other time]: a mask or a bias.
    """
    query = jnp.einsum("bsd,dhk->bshk", x, params["query"].astype(x.dtype))
    key, value = (jnp.einsum("bsd,dhk->bshk", memory, params[n].astype(x.dtype)) for n in ("key", "value"))
    scores = jnp.einsum("bqhk,bshk->bhqs", query, key).astype(jnp.float32) * query.shape[-1] ** -0.5
    weights = jax.nn.softmax(adjust(scores) if adjust else scores).astype(x.dtype)
    mixed = jnp.einsum("bhqs,bshk->bqhk", weights, value)
    return jnp.einsum("bqhk,hkd->bqd", mixed, params["out"].astype(x.dtype))


def causal(scores: jax.Array) -> jax.Array:
    """Attention scores with the future masked."""
    return jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)


def mlp_shapes(*widths: int) -> list[Params]:
    """Shapes of what ``mlp`` takes."""
    return [{"weight": (n, m), "bias": (m,)} for n, m in zip(widths[:-1], widths[1:], strict=True)]


def mlp(
    params: list[Params], x: jax.Array, activation: Callable[[jax.Array], jax.Array] = jax.nn.relu
) -> jax.Array:
    """Dense layers with an activation between them, none after the last."""
    *hidden, last = params
    for layer in hidden:
        x = activation(x @ layer["weight"].astype(x.dtype) + layer["bias"].astype(x.dtype))
    return x @ last["weight"].astype(x.dtype) + last["bias"].astype(x.dtype)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross-entropy in nats."""
    return optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), labels).mean()
