"""Training steps for expert templates; no argument, array or function has a telling name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

LAYERS, BATCH, LENGTH, WIDTH, HEADS, HIDDEN, TOKENS = 2, 16, 32, 64, 8, 256, 128
GROUPS, EXPERTS, SLOTS = 8, 8, 16
BYTES_OF_ACTIVATION = BATCH * LENGTH * WIDTH * 4

Case = tuple[Callable[..., Any], Any, Any]


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, "float32")


def step_of(loss: Callable[..., Any]) -> Callable[..., Any]:
    """Momentum, on a pair of parameters and their velocity."""

    def step(q: Any, z: Any) -> Any:
        p, m = q
        value, g = jax.value_and_grad(loss)(p, z)
        m = jax.tree.map(lambda a, b: 0.9 * a + b, m, g)
        return (jax.tree.map(lambda a, b: a - 0.1 * b, p, m), m), value

    return step


def _case(loss: Callable[..., Any], p: Any, z: Any) -> Case:
    return step_of(loss), (p, p), z


def decoder() -> Case:
    """Attention of joint weights and no normalisation, so that a layer's collectives are the paper's."""

    def layer(x: Any, p: Any) -> Any:
        a, b, c, d = p
        u, v, w = jnp.einsum("bsd,dthk->tbshk", x, a)
        s = jnp.einsum("bqhk,bshk->bhqs", u, v)
        s = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -1e9))
        x = x + jnp.einsum("bhqs,bshk,hkd->bqd", s, w, b)
        return x + jax.nn.gelu(x @ c) @ d

    def loss(p: Any, z: Any) -> Any:
        x = p[0][z[:, :-1]]
        for q in p[1]:
            x = layer(x, q)
        y = x @ p[2]
        t = jnp.take_along_axis(y, z[:, 1:, None], -1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(y, -1) - t)

    wide = WIDTH // HEADS
    one = [f32(WIDTH, 3, HEADS, wide), f32(HEADS, wide, WIDTH), f32(WIDTH, HIDDEN), f32(HIDDEN, WIDTH)]
    p = [f32(TOKENS, WIDTH), [one] * LAYERS, f32(WIDTH, TOKENS)]
    return _case(loss, p, jax.ShapeDtypeStruct((BATCH, LENGTH + 1), "int32"))


def mlp(scale: int = 1) -> Case:
    def loss(p: Any, z: Any) -> Any:
        x, y = z
        for w, b in p:
            x = jnp.tanh(x @ w + b)
        return jnp.mean((x - y) ** 2)

    sizes = [scale * n for n in (64, 512, 64, 512, 64)]
    p = [(f32(a, b), f32(b)) for a, b in zip(sizes[:-1], sizes[1:], strict=True)]
    return _case(loss, p, (f32(128, sizes[0]), f32(128, sizes[0])))


def moe() -> Case:
    """Grouped dispatch with a capacity, as GShard's (https://arxiv.org/abs/2006.16668, algorithm 1)."""

    def loss(p: Any, z: Any) -> Any:
        g = jax.nn.softmax(z @ p[0])
        e = jax.nn.one_hot(jnp.argmax(g, -1), EXPERTS, dtype=jnp.int32)
        k = jax.nn.one_hot(jnp.cumsum(e, 1) * e - 1, SLOTS)
        x = jnp.einsum("gsec,gsd->egcd", k, z)
        x = jax.nn.relu(jnp.einsum("egcd,edf->egcf", x, p[1]))
        x = jnp.einsum("egcf,efd->egcd", x, p[2])
        return jnp.mean((z + jnp.einsum("gsec,gse,egcd->gsd", k, g, x)) ** 2)

    p = [f32(WIDTH, EXPERTS), f32(EXPERTS, WIDTH, HIDDEN), f32(EXPERTS, HIDDEN, WIDTH)]
    return _case(loss, p, f32(GROUPS, 64, WIDTH))


def cnn() -> Case:
    def loss(p: Any, z: Any) -> Any:
        x, y = z
        for w in p[:-1]:
            dims = ("NHWC", "HWIO", "NHWC")
            x = jax.nn.relu(jax.lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=dims))
        return jnp.mean((x.mean((1, 2)) @ p[-1] - y) ** 2)

    p = [f32(3, 3, 3, 32), f32(3, 3, 32, 64), f32(64, 16)]
    return _case(loss, p, (f32(64, 16, 16, 3), f32(64, 16)))


PROGRAMS: dict[str, Callable[[], Case]] = {"decoder": decoder, "mlp": mlp, "moe": moe, "cnn": cnn}


def values_of(spec: Any, seed: int = 0) -> Any:
    """Small random arrays of these shapes."""
    leaves, tree = jax.tree.flatten(spec)
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    made = [_value(k, leaf) for k, leaf in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(tree, made)


def _value(key: Any, leaf: Any) -> Any:
    if leaf.dtype == jnp.int32:
        return jax.random.randint(key, leaf.shape, 0, TOKENS)
    return 0.1 * jax.random.normal(key, leaf.shape)


def bytes_of(tree: Any) -> int:
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in jax.tree.leaves(tree))
