"""Language models with a recurrence instead of attention, float32."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .layers import Params, cross_entropy, init_params, norm, norm_shapes
from .training import Workload, training


def rnn(layers: int, quick: bool) -> Workload:
    """Layers of LSTM cells (Hochreiter and Schmidhuber 1997; as language model, Zaremba et al. 2014)."""
    rows, length, width, vocabulary = (8, 8, 32, 64) if quick else (64, 128, 1024, 16384)

    def loss(params: Any, tokens: jax.Array) -> jax.Array:
        x = params["embed"][tokens[:, :-1]]
        for layer in params["layers"]:
            x = _lstm(layer, x)
        return cross_entropy(x @ params["head"], tokens[:, 1:])

    def init(key: jax.Array) -> Any:
        # Four gates: input, forget, output, and the candidate.
        layer = {"into": (width, 4, width), "recurrent": (width, 4, width), "bias": (4, width)}
        shapes = {"embed": (vocabulary, width), "layers": [layer] * layers, "head": (width, vocabulary)}
        return init_params(key, shapes)

    return training(loss, init, lambda key: jax.random.randint(key, (rows, length + 1), 0, vocabulary))


def _lstm(params: Params, x: jax.Array) -> jax.Array:
    def cell(carry: Any, driven: jax.Array) -> Any:
        hidden, memory = carry
        gates = driven + jnp.einsum("bd,dgk->bgk", hidden, params["recurrent"])
        keep, forget, out = (jax.nn.sigmoid(gates[:, i]) for i in range(3))
        memory = forget * memory + keep * jnp.tanh(gates[:, 3])
        hidden = out * jnp.tanh(memory)
        return (hidden, memory), hidden

    driven = jnp.einsum("btd,dgk->tbgk", x, params["into"]) + params["bias"]
    zeros = jnp.zeros((x.shape[0], x.shape[2]))
    return jax.lax.scan(cell, (zeros, zeros), driven)[1].swapaxes(0, 1)


def ssm(layers: int, quick: bool) -> Workload:
    """Gated diagonal state spaces by a parallel scan over time (S5, Smith et al. 2023).

    The decay depends on the input as in Mamba (Gu and Dao 2023), with a state of one number per channel.
    """
    rows, length, width, vocabulary = (8, 16, 32, 64) if quick else (64, 256, 1024, 16384)

    def loss(params: Any, tokens: jax.Array) -> jax.Array:
        x = params["embed"][tokens[:, :-1]]
        for block in params["blocks"]:
            x = x + _state_space(block, norm(block["norm"], x))
        return cross_entropy(norm(params["norm"], x) @ params["head"], tokens[:, 1:])

    def init(key: jax.Array) -> Any:
        inner = 2 * width
        block = {
            "norm": norm_shapes(width),
            **dict.fromkeys(("into", "gate", "pace"), (width, inner)),
            "rate": (inner,),
            "skip": (inner,),
            "out": (inner, width),
        }
        shapes = {
            "embed": (vocabulary, width),
            "blocks": [block] * layers,
            "norm": norm_shapes(width),
            "head": (width, vocabulary),
        }
        return init_params(key, shapes)

    return training(loss, init, lambda key: jax.random.randint(key, (rows, length + 1), 0, vocabulary))


def _state_space(block: Params, x: jax.Array) -> jax.Array:
    driven = jax.nn.silu(x @ block["into"])
    pace = jax.nn.softplus(x @ block["pace"])
    decay = jnp.exp(-pace * jnp.exp(block["rate"]))
    _, state = jax.lax.associative_scan(_compose, (decay, pace * driven), axis=1)
    return ((state + block["skip"] * driven) * jax.nn.silu(x @ block["gate"])) @ block["out"]


def _compose(first: Any, second: Any) -> Any:
    """One linear step after another: ``x -> a x + b``."""
    (a, b), (c, d) = first, second
    return a * c, c * b + d
