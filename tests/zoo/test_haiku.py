"""dm-haiku: ``transform`` and ``transform_with_state``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.zoo.harness import Training, model
from tests.zoo.training import cross_entropy, integers, mean_square, normal, train, train_with

hk = pytest.importorskip("haiku")
KEY = jax.random.PRNGKey(0)
WIDTH, LENGTH, BATCH, WORDS = 16, 8, 8, 32


def _trained(forward: Callable[..., Any], batch: tuple[Any, ...], loss: Callable[..., Any]) -> Training:
    net = hk.without_apply_rng(hk.transform(forward))
    params = net.init(KEY, batch[0])
    return train(lambda p, x, y: loss(net.apply(p, x), y), params, batch)


def _with_statistics(forward: Callable[..., Any], images: jax.Array, labels: jax.Array) -> Training:
    net = hk.without_apply_rng(hk.transform_with_state(forward))
    params, statistics = net.init(KEY, images)

    def loss(params: Any, statistics: Any, images: jax.Array, labels: jax.Array) -> Any:
        logits, statistics = net.apply(params, statistics, images)
        return cross_entropy(logits, labels), statistics

    return train_with(loss, params, statistics, (images, labels))


def _transformer(tokens: jax.Array) -> jax.Array:
    x = hk.Embed(WORDS, WIDTH)(tokens) + hk.get_parameter("position", (LENGTH, WIDTH), init=jnp.zeros)
    mask = np.tril(np.ones((1, 1, LENGTH, LENGTH), bool))
    for _ in range(2):
        h = hk.LayerNorm(-1, True, True)(x)
        x = x + hk.MultiHeadAttention(4, 4, w_init=hk.initializers.VarianceScaling(0.5))(h, h, h, mask)
        x = x + hk.nets.MLP([32, WIDTH])(hk.LayerNorm(-1, True, True)(x))
    return hk.Linear(WORDS)(x)


@model("dm-haiku", "transformer")
def test_transformer() -> Training:
    tokens, labels = integers(0, WORDS, BATCH, LENGTH), integers(1, WORDS, BATCH, LENGTH)
    return _trained(_transformer, (tokens, labels), cross_entropy)


@model("dm-haiku", "ResNet v2 (hk.nets.ResNet, one bottleneck a group)", own=True, kind="ConvNet, batch norm")
def test_resnet() -> Training:
    images, labels = normal(0, BATCH, 32, 32, 3), integers(1, 8, BATCH)

    def forward(x: jax.Array) -> jax.Array:
        net = hk.nets.ResNet(
            (1, 1, 1, 1), 8, resnet_v2=True, channels_per_group=(8, 8, 16, 16), use_projection=(True,) * 4
        )
        return net(x, True)

    return _with_statistics(forward, images, labels)


@model("dm-haiku", "MobileNet v1 (hk.nets.MobileNetV1, four blocks)", own=True, kind="ConvNet, batch norm")
def test_mobilenet() -> Training:
    images, labels = normal(0, BATCH, 32, 32, 3), integers(1, 8, BATCH)

    def forward(x: jax.Array) -> jax.Array:
        return hk.nets.MobileNetV1((1, 2, 1, 2), (8, 16, 16, 32), num_classes=8)(x, True)

    return _with_statistics(forward, images, labels)


@model("dm-haiku", "MobileNet v1 layers: depthwise and pointwise, batch norm", kind="ConvNet, batch norm")
def test_separable() -> Training:
    images, labels = normal(0, BATCH, 8, 8, 3), integers(1, 8, BATCH)

    def forward(x: jax.Array) -> jax.Array:
        x = hk.Conv2D(8, 3, 2)(x)
        for channels in (8, 16):
            x = jax.nn.relu(hk.BatchNorm(True, True, 0.9)(hk.DepthwiseConv2D(1, 3)(x), is_training=True))
            x = jax.nn.relu(hk.Conv2D(channels, 1)(x))
        return hk.Linear(8)(x.mean((1, 2)))

    return _with_statistics(forward, images, labels)


@model("dm-haiku", "deep RNN: two LSTMs by hk.dynamic_unroll", kind="recurrent network")
def test_deep_rnn() -> Training:
    x, y = normal(0, LENGTH, BATCH, 8), normal(1, LENGTH, BATCH, 1)

    def forward(x: jax.Array) -> jax.Array:
        core = hk.DeepRNN([hk.LSTM(WIDTH), hk.LSTM(WIDTH)])
        return hk.Linear(1)(hk.dynamic_unroll(core, x, core.initial_state(BATCH))[0])

    return _trained(forward, (x, y), mean_square)


@model("dm-haiku", "convolutional LSTM", kind="recurrent network")
def test_conv_lstm() -> Training:
    x, y = normal(0, 4, BATCH, 6, 6, 3), normal(1, 4, BATCH, 6, 6, 4)

    def forward(x: jax.Array) -> jax.Array:
        core = hk.Conv2DLSTM((6, 6), 4, 3)
        return hk.dynamic_unroll(core, x, core.initial_state(BATCH))[0]

    return _trained(forward, (x, y), mean_square)


@model("dm-haiku", "VQ-VAE: hk.nets.VectorQuantizer, straight-through")
def test_vector_quantizer() -> Training:
    images = normal(0, BATCH, 8, 8, 3)

    def forward(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        z = hk.Conv2D(8, 4, 2)(x)
        coded = hk.nets.VectorQuantizer(8, 16, commitment_cost=0.25)(z, is_training=True)
        return hk.Conv2DTranspose(3, 4, 2)(coded["quantize"]), coded["loss"]

    def loss(found: Any, target: jax.Array) -> jax.Array:
        return mean_square(found[0], target) + found[1]

    return _trained(forward, (images, images), loss)


@model("dm-haiku", "MLP, hk.layer_stack")
def test_layer_stack() -> Training:
    x, y = normal(0, 16, WIDTH), normal(1, 16, WIDTH)

    def layer(x: jax.Array) -> jax.Array:
        return x + hk.Linear(WIDTH)(jax.nn.gelu(hk.Linear(2 * WIDTH)(x)))

    return _trained(lambda x: hk.layer_stack(3)(layer)(x), (x, y), mean_square)
