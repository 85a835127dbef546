"""equinox: modules that are pytrees; what is not an array is static."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.zoo.harness import Training, model
from tests.zoo.training import cross_entropy, integers, mean_square, normal, train_equinox, train_with

eqx = pytest.importorskip("equinox")
KEY = jax.random.key(0)
BATCH = 8


@model("equinox", "MLP")
def test_mlp() -> Training:
    x, y = normal(0, 16, 8), normal(1, 16, 8)
    return train_equinox(
        eqx.nn.MLP(8, 8, 32, 2, key=KEY), lambda f, x, y: mean_square(jax.vmap(f)(x), y), (x, y)
    )


class PatchTransformer(eqx.Module):
    """A small vision transformer out of equinox' layers."""

    patches: Any
    position: jax.Array
    attention: list[Any]
    feed: list[Any]
    norms: list[Any]
    head: Any

    def __init__(self, width: int, layers: int, key: jax.Array) -> None:
        keys = jax.random.split(key, 3 + 2 * layers)
        self.patches = eqx.nn.Conv2d(3, width, 4, 4, key=keys[0])
        self.position = jax.random.normal(keys[1], (4, width))
        self.attention = [eqx.nn.MultiheadAttention(4, width, key=k) for k in keys[3 : 3 + layers]]
        self.feed = [eqx.nn.MLP(width, width, 2 * width, 1, key=k) for k in keys[3 + layers :]]
        self.norms = [eqx.nn.LayerNorm(width) for _ in range(2 * layers)]
        self.head = eqx.nn.Linear(width, 8, key=keys[2])

    def __call__(self, image: jax.Array) -> jax.Array:
        x = self.patches(image).reshape(self.position.shape[1], -1).T + self.position
        for i, (attention, feed) in enumerate(zip(self.attention, self.feed, strict=True)):
            h = jax.vmap(self.norms[2 * i])(x)
            x = x + attention(h, h, h)
            x = x + jax.vmap(feed)(jax.vmap(self.norms[2 * i + 1])(x))
        return self.head(x.mean(0))


@model("equinox", "vision transformer", kind="vision transformer")
def test_vision_transformer() -> Training:
    images, labels = normal(0, BATCH, 3, 8, 8), integers(1, 8, BATCH)
    net = PatchTransformer(16, 2, KEY)
    return train_equinox(net, lambda f, x, y: cross_entropy(jax.vmap(f)(x), y), (images, labels))


class BatchNormed(eqx.Module):
    """Convolutions and batch norm: statistics live in equinox' state."""

    layers: Any

    def __init__(self, key: jax.Array) -> None:
        first, second = jax.random.split(key)
        self.layers = eqx.nn.Sequential(
            [
                eqx.nn.Conv2d(3, 8, 3, padding=1, key=first),
                eqx.nn.BatchNorm(8, "batch", mode="batch"),
                eqx.nn.Lambda(jax.nn.relu),
                eqx.nn.AdaptiveAvgPool2d(2),
                eqx.nn.Lambda(jnp.ravel),
                eqx.nn.Linear(32, 8, key=second),
            ]
        )

    def __call__(self, x: jax.Array, state: Any) -> Any:
        return self.layers(x, state)


@model("equinox", "ConvNet, batch norm by eqx.nn.State", kind="ConvNet, batch norm")
def test_batch_norm() -> Training:
    images, labels = normal(0, BATCH, 3, 8, 8), integers(1, 8, BATCH)
    net, state = eqx.nn.make_with_state(BatchNormed)(KEY)
    params, static = eqx.partition(net, eqx.is_inexact_array)

    def loss(params: Any, state: Any, images: jax.Array, labels: jax.Array) -> Any:
        net = eqx.combine(params, static)
        batched = jax.vmap(net, in_axes=(0, None), out_axes=(0, None), axis_name="batch")
        logits, state = batched(images, state)
        return cross_entropy(logits, labels), state

    return train_with(loss, params, state, (images, labels))


class Recurrent(eqx.Module):
    """A GRU by ``lax.scan`` over one sequence."""

    cell: Any
    head: Any

    def __call__(self, x: jax.Array) -> jax.Array:
        def step(h: jax.Array, x: jax.Array) -> tuple[jax.Array, None]:
            return self.cell(x, h), None

        return self.head(jax.lax.scan(step, jnp.zeros(16), x)[0])


@model("equinox", "GRU", kind="recurrent network")
def test_gru() -> Training:
    x, y = normal(0, BATCH, 8, 8), normal(1, BATCH, 4)
    net = Recurrent(eqx.nn.GRUCell(8, 16, key=KEY), eqx.nn.Linear(16, 4, key=KEY))
    return train_equinox(net, lambda f, x, y: mean_square(jax.vmap(f)(x), y), (x, y))


@model("equinox", "MLP, eqx.filter_checkpoint and scanned layers")
def test_scanned() -> Training:
    x, y = normal(0, 16, 16), normal(1, 16, 16)
    stack = eqx.filter_vmap(lambda key: eqx.nn.Linear(16, 16, key=key))(jax.random.split(KEY, 3))

    def loss(stack: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        arrays, static = eqx.partition(stack, eqx.is_array)

        @eqx.filter_checkpoint
        def layer(x: jax.Array, arrays: Any) -> tuple[jax.Array, None]:
            return x + jnp.tanh(jax.vmap(eqx.combine(arrays, static))(x)), None

        return mean_square(jax.lax.scan(layer, x, arrays)[0], y)

    return train_equinox(stack, loss, (x, y))
