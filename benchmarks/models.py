"""Training steps to plan, each with the shapes of its arguments; no array is ever made.

Every step is ordinary single-device JAX with ``optax.adamw``: ``step(state, batch) -> (state, loss)`` where
the state is ``(params, opt_state)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax

from .decoder import DecoderSize, decoder_loss, init_decoder

Step = Callable[[Any, Any], tuple[Any, jax.Array]]


@dataclass(frozen=True)
class Workload:
    """A training step and what it takes.

    Attributes:
        step: the function to plan.
        args: shapes of its arguments.
    """

    step: Step
    args: tuple[Any, ...]


def make_workload(model: str, layers: int, quick: bool = False) -> Workload:
    """A training step by name.

    Args:
        model: one of ``MODELS``.
        layers: how deep.
        quick: tiny sizes, for a test that the benchmark runs.
    """
    return MODELS[model](layers, quick)


def training(loss: Callable[[Any, Any], jax.Array], init: Callable[[], Any], batch: Any) -> Workload:
    """A training step of a loss.

    Args:
        loss: of parameters and batch.
        init: makes the parameters; only their shapes are used.
        batch: shapes of a batch.
    """
    optimizer = optax.adamw(3e-4, b2=0.95, weight_decay=0.1)

    def train_step(state: Any, batch: Any) -> tuple[Any, jax.Array]:
        params, opt_state = state
        value, grads = jax.value_and_grad(loss)(params, batch)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return (optax.apply_updates(params, updates), opt_state), value

    params = jax.eval_shape(init)
    return Workload(train_step, ((params, jax.eval_shape(optimizer.init, params)), batch))


def decoder(layers: int, quick: bool, scanned: bool = False, length: int = 1024) -> Workload:
    """The widths of GPT-2 medium with a vocabulary that divides, 64 sequences.

    Args:
        layers: blocks.
        quick: tiny widths.
        scanned: one ``lax.scan`` over the layers.
        length: tokens in a sequence.
    """
    size = DecoderSize(layers, length=length, scanned=scanned)
    if quick:
        size = DecoderSize(layers, 64, 8, 128, length // 32, 16, scanned)
    tokens = jax.ShapeDtypeStruct((size.batch, size.length + 1), jnp.int32)
    return training(
        lambda params, batch: decoder_loss(params, batch, size),
        lambda: init_decoder(jax.random.key(0), size),
        tokens,
    )


def scanned_decoder(layers: int, quick: bool) -> Workload:
    """The decoder as one ``lax.scan`` over its layers."""
    return decoder(layers, quick, scanned=True)


def short_decoder(layers: int, quick: bool) -> Workload:
    """The decoder on sequences of 128 tokens: weights and gradients are most of the memory."""
    return decoder(layers, quick, length=128)


def mlp(layers: int, quick: bool) -> Workload:
    """Wide layers and a small batch: the weights outweigh the activations."""
    width, batch = (128, 16) if quick else (8192, 64)

    def loss(params: Any, batch: Any) -> jax.Array:
        x, y = batch
        for weight, bias in params:
            x = jax.nn.relu(x @ weight + bias)
        return jnp.mean((x - y) ** 2)

    shape = jax.ShapeDtypeStruct((batch, width), jnp.float32)
    return training(loss, lambda: [(jnp.zeros((width, width)), jnp.zeros(width))] * layers, (shape, shape))


def moe(layers: int, quick: bool) -> Workload:
    """Layers of experts with dense dispatch to the best one (Switch, Fedus et al. 2021, section 2.1)."""
    tokens, width, experts = (64, 32, 8) if quick else (16384, 1024, 64)
    capacity = 2 * tokens // experts

    def layer(params: Any, x: jax.Array) -> jax.Array:
        probability = jax.nn.softmax(x @ params["router"])
        chosen = jax.nn.one_hot(jnp.argmax(probability, -1), experts, dtype=jnp.int32)
        slot = jnp.cumsum(chosen, axis=0) * chosen - 1
        dispatch = jax.nn.one_hot(slot, capacity)
        hidden = jax.nn.relu(jnp.einsum("tec,td,edf->ecf", dispatch, x, params["up"]))
        return x + jnp.einsum("te,tec,ecf,efd->td", probability, dispatch, hidden, params["down"])

    def loss(params: Any, batch: Any) -> jax.Array:
        x = batch
        for block in params:
            x = layer(block, x)
        return jnp.mean((x - batch) ** 2)

    def init() -> Any:
        up = jnp.zeros((experts, width, 4 * width))
        return [{"router": jnp.zeros((width, experts)), "up": up, "down": up.mT}] * layers

    return training(loss, init, jax.ShapeDtypeStruct((tokens, width), jnp.float32))


def cnn(layers: int, quick: bool) -> Workload:
    """Residual 3x3 convolutions on small images: few weights, many activations."""
    batch, side, channels = (16, 8, 16) if quick else (512, 32, 128)
    classes = 16

    def loss(params: Any, batch: Any) -> jax.Array:
        x, labels = batch
        for kernel in params["kernels"]:
            x = x + jax.nn.relu(
                jax.lax.conv_general_dilated(
                    x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
                )
            )
        logits = x.mean((1, 2)) @ params["head"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    def init() -> Any:
        kernels = [jnp.zeros((3, 3, channels, channels))] * layers
        return {"kernels": kernels, "head": jnp.zeros((channels, classes))}

    images = jax.ShapeDtypeStruct((batch, side, side, channels), jnp.float32)
    return training(loss, init, (images, jax.ShapeDtypeStruct((batch,), jnp.int32)))


MODELS: dict[str, Callable[[int, bool], Workload]] = {
    "decoder": decoder,
    "decoder-scan": scanned_decoder,
    "decoder-short": short_decoder,
    "mlp": mlp,
    "moe": moe,
    "cnn": cnn,
}
