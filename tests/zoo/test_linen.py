"""flax linen: each layer kind, and models made of them."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from tests.zoo.harness import Training, model
from tests.zoo.training import cross_entropy, integers, mean_square, normal, train, train_with

KEY = jax.random.key(0)
WIDTH, LENGTH, BATCH, WORDS = 16, 8, 8, 32


class Block(nn.Module):
    """A decoder's layer; as a scan's body it takes and gives a carry."""

    heads: int = 4

    @nn.compact
    def __call__(self, x: jax.Array, mask: jax.Array) -> tuple[jax.Array, None]:
        h = nn.MultiHeadAttention(self.heads)(nn.LayerNorm()(x), mask=mask)
        x = x + h
        h = nn.Dense(4 * WIDTH)(nn.RMSNorm()(x))
        return x + nn.Dense(WIDTH)(nn.gelu(h)), None


class Decoder(nn.Module):
    """A decoder with its layers scanned, rematerialized or neither."""

    layers: int = 3
    scan: bool = True
    remat: bool = False

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        embed = nn.Embed(WORDS, WIDTH)
        mask = nn.make_causal_mask(tokens)
        x = embed(tokens)
        block: Any = nn.remat(Block, prevent_cse=not self.scan) if self.remat else Block
        if self.scan:
            stack = nn.scan(
                block,
                variable_axes={"params": 0},
                split_rngs={"params": True},
                in_axes=nn.broadcast,
                length=self.layers,
            )
            x, _ = stack()(x, mask)
        else:
            for _ in range(self.layers):
                x, _ = block()(x, mask)
        return embed.attend(nn.LayerNorm()(x))


def _decoder(**options: Any) -> Training:
    tokens = integers(0, WORDS, BATCH, LENGTH + 1)
    net = Decoder(**options)

    def loss(params: Any, tokens: jax.Array) -> jax.Array:
        return cross_entropy(net.apply(params, tokens[:, :-1]), tokens[:, 1:])

    return train(loss, net.init(KEY, tokens[:, :-1]), (tokens,))


@model("flax linen", "decoder, layers by nn.scan, tied embedding", kind="transformer decoder, scanned layers")
def test_decoder_scan() -> Training:
    return _decoder()


@model("flax linen", "decoder, layers by nn.scan and nn.remat", kind="transformer decoder, scanned layers")
def test_decoder_scan_remat() -> Training:
    return _decoder(remat=True)


@model("flax linen", "decoder, layers unrolled, nn.remat")
def test_decoder_remat() -> Training:
    return _decoder(scan=False, remat=True, layers=2)


class ConvNet(nn.Module):
    """Convolutions with batch norm and a residual, as in ResNet."""

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        x = nn.relu(nn.BatchNorm(use_running_average=not train)(nn.Conv(8, (3, 3), use_bias=False)(x)))
        h = nn.relu(nn.BatchNorm(use_running_average=not train)(nn.Conv(8, (3, 3), use_bias=False)(x)))
        x = nn.avg_pool(x + h, (2, 2), (2, 2))
        x = nn.max_pool(nn.Conv(16, (3, 3), strides=2)(x), (2, 2), (1, 1), padding="SAME")
        return nn.Dense(8)(x.mean(axis=(1, 2)))


@model("flax linen", "ResNet-like ConvNet, batch norm", kind="ConvNet, batch norm")
def test_convnet() -> Training:
    images, labels = normal(0, 16, 8, 8, 3), integers(1, 8, 16)
    net = ConvNet()
    variables = net.init(KEY, images, True)

    def loss(params: Any, stats: Any, images: jax.Array, labels: jax.Array) -> Any:
        variables = {"params": params, "batch_stats": stats}
        logits, changed = net.apply(variables, images, True, mutable=["batch_stats"])
        return cross_entropy(logits, labels), changed["batch_stats"]

    return train_with(loss, variables["params"], variables["batch_stats"], (images, labels))


class Recurrent(nn.Module):
    """A recurrent cell over a sequence."""

    cell: Any

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.Dense(1)(nn.RNN(self.cell(WIDTH))(x))


RECURRENT = {"LSTM": nn.OptimizedLSTMCell, "GRU": nn.GRUCell, "simple RNN": nn.SimpleCell}


def _recurrent(name: str) -> Training:
    x, y = normal(0, BATCH, LENGTH, 8), normal(1, BATCH, LENGTH, 1)
    net = Recurrent(RECURRENT[name])
    return train(lambda p, x, y: mean_square(net.apply(p, x), y), net.init(KEY, x), (x, y))


@model("flax linen", "LSTM", kind="recurrent network")
def test_lstm() -> Training:
    return _recurrent("LSTM")


@model("flax linen", "GRU", kind="recurrent network")
def test_gru() -> Training:
    return _recurrent("GRU")


@model("flax linen", "simple RNN", kind="recurrent network")
def test_simple_rnn() -> Training:
    return _recurrent("simple RNN")


class Bidirectional(nn.Module):
    """A bidirectional LSTM over sequences of several lengths."""

    @nn.compact
    def __call__(self, x: jax.Array, lengths: jax.Array) -> jax.Array:
        forward, backward = nn.RNN(nn.LSTMCell(8)), nn.RNN(nn.LSTMCell(8))
        return nn.Dense(1)(nn.Bidirectional(forward, backward)(x, seq_lengths=lengths))


@model("flax linen", "bidirectional LSTM, sequence lengths", kind="recurrent network")
def test_bidirectional() -> Training:
    x, y, lengths = normal(0, BATCH, LENGTH, 8), normal(1, BATCH, LENGTH, 1), integers(2, LENGTH, BATCH) + 1
    net = Bidirectional()
    return train(
        lambda p, x, y, n: mean_square(net.apply(p, x, n), y), net.init(KEY, x, lengths), (x, y, lengths)
    )


class UNet(nn.Module):
    """Down, up and skips: convolutions, transposed ones, group norm."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        skip = nn.silu(nn.GroupNorm(4)(nn.Conv(8, (3, 3))(x)))
        x = nn.silu(nn.GroupNorm(4)(nn.Conv(16, (3, 3), strides=2)(skip)))
        x = nn.ConvTranspose(8, (2, 2), strides=(2, 2))(x)
        return nn.Conv(3, (1, 1))(jnp.concatenate([x, skip], -1))


@model("flax linen", "U-Net: ConvTranspose, GroupNorm, skips", kind="U-Net")
def test_unet() -> Training:
    x, y = normal(0, BATCH, 8, 8, 3), normal(1, BATCH, 8, 8, 3)
    net = UNet()
    return train(lambda p, x, y: mean_square(net.apply(p, x), y), net.init(KEY, x), (x, y))


class Layers(nn.Module):
    """The remaining layer kinds, one after the other."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.DenseGeneral((4, 8))(x)
        x = nn.DenseGeneral(WIDTH, axis=(-2, -1))(nn.PReLU()(x))
        x = nn.WeightNorm(nn.Dense(WIDTH))(x)
        x = nn.Einsum((WIDTH, 2, WIDTH), "bld,dke->blke")(x).max(axis=2)
        x = nn.ConvLocal(WIDTH, (3,))(nn.InstanceNorm()(x))
        x = nn.Conv(WIDTH, (3,), feature_group_count=WIDTH, padding="CAUSAL")(x)
        return nn.Dropout(0.5, deterministic=False)(x)


@model("flax linen", "other layers: DenseGeneral, WeightNorm, ConvLocal, depthwise, Dropout")
def test_layers() -> Training:
    x, y = normal(0, BATCH, LENGTH, WIDTH), normal(1, BATCH, LENGTH, WIDTH)
    net = Layers()

    def loss(params: Any, key: jax.Array, x: jax.Array, y: jax.Array) -> Any:
        key, dropout = jax.random.split(key)
        return mean_square(net.apply(params, x, rngs={"dropout": dropout}), y), key

    params = net.init({"params": KEY, "dropout": KEY}, x)
    return train_with(loss, params, jax.random.key(1), (x, y))
