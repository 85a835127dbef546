"""flax nnx: layer kinds, and the state kept by ``nnx.split`` and ``nnx.merge``."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from tests.zoo.harness import Training, model
from tests.zoo.training import adam, cross_entropy, integers, mean_square, normal, train_nnx

WIDTH, LENGTH, BATCH, WORDS = 16, 8, 8, 32


class Block(nnx.Module):
    """An encoder's layer with dropout."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norms = nnx.List([nnx.LayerNorm(WIDTH, rngs=rngs), nnx.RMSNorm(WIDTH, rngs=rngs)])
        self.attention = nnx.MultiHeadAttention(4, WIDTH, rngs=rngs, decode=False)
        self.up, self.down = nnx.Linear(WIDTH, 32, rngs=rngs), nnx.Linear(32, WIDTH, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = x + self.attention(self.norms[0](x))
        return x + self.dropout(self.down(nnx.gelu(self.up(self.norms[1](x)))))


class Transformer(nnx.Module):
    """Embedding, layers and head."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.embed = nnx.Embed(WORDS, WIDTH, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(2)])
        self.head = nnx.Linear(WIDTH, WORDS, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@model("flax nnx", "transformer with dropout")
def test_transformer() -> Training:
    tokens, labels = integers(0, WORDS, BATCH, LENGTH), integers(1, WORDS, BATCH, LENGTH)
    return train_nnx(Transformer(nnx.Rngs(0)), lambda net, x, y: cross_entropy(net(x), y), (tokens, labels))


class ScannedLinears(nnx.Module):
    """Layers made by ``nnx.vmap`` and run by ``nnx.scan``."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        @nnx.split_rngs(splits=3)
        @nnx.vmap(in_axes=(0,), out_axes=0)
        def make(rngs: nnx.Rngs) -> nnx.Linear:
            return nnx.Linear(WIDTH, WIDTH, rngs=rngs)

        self.layers = make(rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        def forward(x: jax.Array, layer: nnx.Linear) -> jax.Array:
            return x + jnp.tanh(layer(x))

        return forward(x, self.layers)


@model("flax nnx", "MLP, layers by nnx.vmap and nnx.scan")
def test_scan() -> Training:
    x, y = normal(0, 16, WIDTH), normal(1, 16, WIDTH)
    return train_nnx(ScannedLinears(nnx.Rngs(0)), lambda net, x, y: mean_square(net(x), y), (x, y))


class ConvNet(nnx.Module):
    """Convolutions with batch norm, transposed convolution, group norm."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.down = nnx.Conv(3, 8, (3, 3), strides=2, rngs=rngs)
        self.batch_norm = nnx.BatchNorm(8, rngs=rngs)
        self.up = nnx.ConvTranspose(8, 8, (2, 2), strides=(2, 2), rngs=rngs)
        self.group_norm = nnx.GroupNorm(8, num_groups=4, rngs=rngs)
        self.out = nnx.Conv(8, 3, (1, 1), rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.relu(self.batch_norm(self.down(x)))
        return self.out(nnx.silu(self.group_norm(self.up(x))))


@model("flax nnx", "ConvNet: BatchNorm, ConvTranspose, GroupNorm", kind="ConvNet, batch norm")
def test_convnet() -> Training:
    x, y = normal(0, BATCH, 8, 8, 3), normal(1, BATCH, 8, 8, 3)
    return train_nnx(ConvNet(nnx.Rngs(0)), lambda net, x, y: mean_square(net(x), y), (x, y))


class Recurrent(nnx.Module):
    """An LSTM over a GRU."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.lstm = nnx.RNN(nnx.OptimizedLSTMCell(8, WIDTH, rngs=rngs))
        self.gru = nnx.RNN(nnx.GRUCell(WIDTH, WIDTH, rngs=rngs))
        self.head = nnx.Linear(WIDTH, 1, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.head(self.gru(self.lstm(x)))


@model("flax nnx", "LSTM and GRU", kind="recurrent network")
def test_recurrent() -> Training:
    x, y = normal(0, BATCH, LENGTH, 8), normal(1, BATCH, LENGTH, 1)
    return train_nnx(Recurrent(nnx.Rngs(0)), lambda net, x, y: mean_square(net(x), y), (x, y))


class Adapted(nnx.Module):
    """Low-rank adapters on linear layers, and an einsum layer."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.LoRALinear(8, WIDTH, lora_rank=2, rngs=rngs)
        self.mix = nnx.Einsum("bd,dhk->bhk", (WIDTH, 4, 4), (4, 4), rngs=rngs)
        self.last = nnx.LinearGeneral((4, 4), 1, axis=(-2, -1), rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.last(nnx.relu(self.mix(nnx.relu(self.first(x)))))


@model("flax nnx", "LoRA, Einsum, LinearGeneral")
def test_adapted() -> Training:
    x, y = normal(0, 16, 8), normal(1, 16, 1)
    return train_nnx(Adapted(nnx.Rngs(0)), lambda net, x, y: mean_square(net(x), y), (x, y))


@model("flax nnx", "MLP, nnx.Optimizer")
def test_optimizer() -> Training:
    """The optimizer is a module too; both are split and merged in the step."""
    net = nnx.Sequential(nnx.Linear(8, 32, rngs=nnx.Rngs(0)), nnx.relu, nnx.Linear(32, 8, rngs=nnx.Rngs(1)))
    graph, state = nnx.split((net, nnx.Optimizer(net, adam(), wrt=nnx.Param)))

    def step(state: Any, x: jax.Array, y: jax.Array) -> tuple[Any, Any]:
        net, optimizer = nnx.merge(graph, state)
        loss, grads = nnx.value_and_grad(lambda net: mean_square(net(x), y))(net)
        optimizer.update(net, grads)
        return nnx.state((net, optimizer)), loss

    return Training(step, state, (normal(0, 16, 8), normal(1, 16, 8)))
