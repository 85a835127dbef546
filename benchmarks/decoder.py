"""A decoder of any size in plain JAX: GPT-2's block (Radford et al. 2019), unrolled or scanned over layers.

Weights are float32, matrix products bfloat16, and the head is the transposed embedding, as in GPT-2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .workloads.layers import attention, causal, norm

Params = dict[str, Any]


@dataclass(frozen=True)
class DecoderSize:
    """Sizes of a decoder and of one batch.

    Attributes:
        layers: blocks.
        width: of the residual stream; heads divide it.
        heads: attention heads.
        vocabulary: tokens.
        length: tokens in a sequence.
        batch: sequences in a batch.
        scanned: one ``lax.scan`` over stacked layers instead of a block after the other.
    """

    layers: int
    width: int = 1024
    heads: int = 16
    vocabulary: int = 32768
    length: int = 1024
    batch: int = 64
    scanned: bool = False


def init_decoder(key: jax.Array, size: DecoderSize) -> Params:
    """Makes the parameters.

    Args:
        key: random key.
        size: sizes.

    Returns:
        ``embed`` [vocabulary, width], ``position`` [length, width], ``norm``, and ``blocks``: a list of
        trees, or where scanned one tree whose arrays have a leading dim of layers.
    """
    embed_key, position_key, *keys = jax.random.split(key, size.layers + 2)
    blocks = [_init_block(k, size) for k in keys]
    return {
        "embed": _normal(embed_key, (size.vocabulary, size.width)),
        "position": _normal(position_key, (size.length, size.width)),
        "blocks": jax.tree.map(lambda *x: jnp.stack(x), *blocks) if size.scanned else blocks,
        "norm": _init_norm(size.width),
    }


def decoder_loss(params: Params, tokens: jax.Array, size: DecoderSize) -> jax.Array:
    """Mean cross-entropy of the next token, in nats.

    Args:
        params: from ``init_decoder``.
        tokens: int32 [batch, length + 1].
        size: sizes.
    """
    logits = decoder_logits(params, tokens[:, :-1], size)
    chosen = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - chosen)


def decoder_logits(params: Params, inputs: jax.Array, size: DecoderSize) -> jax.Array:
    """Scores of the next token: float32 [batch, length, vocabulary].

    Args:
        params: from ``init_decoder``.
        inputs: int32 [batch, length].
        size: sizes.
    """
    x = params["embed"][inputs] + params["position"]
    x = _blocks(params["blocks"], x.astype(jnp.bfloat16), size)
    x = norm(params["norm"], x)
    return jnp.einsum("bsd,vd->bsv", x, params["embed"].astype(x.dtype)).astype(jnp.float32)


def _blocks(blocks: Any, x: jax.Array, size: DecoderSize) -> jax.Array:
    if size.scanned:
        return jax.lax.scan(lambda y, block: (_block(block, y), None), x, blocks)[0]
    for block in blocks:
        x = _block(block, x)
    return x


def _block(block: Params, x: jax.Array) -> jax.Array:
    normed = norm(block["norm_attention"], x)
    x = x + attention(block, normed, normed, causal)
    hidden = norm(block["norm_mlp"], x) @ block["up"].astype(x.dtype) + block["up_bias"].astype(x.dtype)
    return x + jax.nn.gelu(hidden) @ block["down"].astype(x.dtype) + block["down_bias"].astype(x.dtype)


def _init_block(key: jax.Array, size: DecoderSize) -> Params:
    width, heads = size.width, size.heads
    keys = jax.random.split(key, 6)
    into = (width, heads, width // heads)
    return {
        "norm_attention": _init_norm(width),
        **{name: _normal(k, into) for name, k in zip(("query", "key", "value"), keys[:3], strict=True)},
        "out": _normal(keys[3], (heads, width // heads, width)),
        "norm_mlp": _init_norm(width),
        "up": _normal(keys[4], (width, 4 * width)),
        "up_bias": jnp.zeros(4 * width),
        "down": _normal(keys[5], (4 * width, width)),
        "down_bias": jnp.zeros(width),
    }


def _init_norm(width: int) -> Params:
    return {"scale": jnp.ones(width), "bias": jnp.zeros(width)}


def _normal(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return 0.02 * jax.random.normal(key, shape)
