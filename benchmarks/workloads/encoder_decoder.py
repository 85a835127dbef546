"""An encoder and a decoder with cross attention. Matrix products are bfloat16."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .layers import Params, attention, attention_shapes, causal, cross_entropy, init_params
from .training import Workload, training

_BUCKETS = 32
_FARTHEST = 128

Adjust = Callable[[jax.Array], jax.Array]


def encoder_decoder(layers: int, quick: bool) -> Workload:
    """T5 of the large widths (Raffel et al. 2020): relative biases, root-mean-square norm, tied embedding.

    Args:
        layers: blocks of the encoder, and as many of the decoder.
        quick: tiny sizes.
    """
    rows, source, target, width, heads, vocabulary = (
        (8, 16, 8, 32, 4, 64) if quick else (64, 256, 128, 1024, 16, 32768)
    )

    def loss(params: Any, batch: Any) -> jax.Array:
        read, written = batch
        embed = params["embed"].astype(jnp.bfloat16)
        memory = _encode(params["encoder"], embed[read])
        x = _decode(params["decoder"], embed[written[:, :-1]], memory)
        logits = jnp.einsum("btd,vd->btv", x * width**-0.5, embed)
        return cross_entropy(logits, written[:, 1:])

    def init(key: jax.Array) -> Any:
        feed_forward = {"norm_mlp": {"scale": (width,)}, "up": (width, 4 * width), "down": (4 * width, width)}
        one = {"norm": {"scale": (width,)}, "attention": attention_shapes(width, heads), **feed_forward}
        other = {**one, "norm_cross": {"scale": (width,)}, "cross": attention_shapes(width, heads)}
        ends = {"bias": (_BUCKETS, heads), "norm": {"scale": (width,)}}
        shapes = {
            "embed": (vocabulary, width),
            "encoder": {**ends, "blocks": [one] * layers},
            "decoder": {**ends, "blocks": [other] * layers},
        }
        return init_params(key, shapes)

    def make_batch(key: jax.Array) -> Any:
        read_key, written_key = jax.random.split(key)
        read = jax.random.randint(read_key, (rows, source), 0, vocabulary)
        return read, jax.random.randint(written_key, (rows, target + 1), 0, vocabulary)

    return training(loss, init, make_batch)


def _encode(params: Params, x: jax.Array) -> jax.Array:
    bias = _relative_bias(params["bias"], x.shape[1], both_ways=True)
    for block in params["blocks"]:
        x = _feed_forward(block, _attend(block, x, lambda scores: scores + bias))
    return _norm(params["norm"], x)


def _decode(params: Params, x: jax.Array, memory: jax.Array) -> jax.Array:
    bias = _relative_bias(params["bias"], x.shape[1], both_ways=False)
    for block in params["blocks"]:
        x = _attend(block, x, lambda scores: causal(scores + bias))
        x = x + attention(block["cross"], _norm(block["norm_cross"], x), memory)
        x = _feed_forward(block, x)
    return _norm(params["norm"], x)


def _attend(block: Params, x: jax.Array, adjust: Adjust) -> jax.Array:
    normed = _norm(block["norm"], x)
    return x + attention(block["attention"], normed, normed, adjust)


def _feed_forward(block: Params, x: jax.Array) -> jax.Array:
    hidden = jax.nn.relu(_norm(block["norm_mlp"], x) @ block["up"].astype(x.dtype))
    return x + hidden @ block["down"].astype(x.dtype)


def _norm(params: Params, x: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    scale = jax.lax.rsqrt(jnp.mean(wide**2, -1, keepdims=True) + 1e-6)
    return (wide * scale * params["scale"]).astype(x.dtype)


def _relative_bias(table: jax.Array, length: int, both_ways: bool) -> jax.Array:
    """[heads, length, length] of a table [buckets, heads]."""
    return table[_buckets(length, both_ways)].transpose(2, 0, 1)


def _buckets(length: int, both_ways: bool) -> np.ndarray:
    """The bucket of each distance (section 2.1): near ones have their own, far ones share, by logarithm."""
    ahead = np.arange(length)[None] - np.arange(length)[:, None]
    count = _BUCKETS // 2 if both_ways else _BUCKETS
    distance = np.abs(ahead) if both_ways else np.maximum(-ahead, 0)
    near = count // 2
    share = np.log(np.maximum(distance, 1) / near) / math.log(_FARTHEST / near)
    far = np.minimum(near + (share * (count - near)).astype(int), count - 1)
    bucket = np.where(distance < near, distance, far)
    return bucket + count * (ahead > 0) if both_ways else bucket
