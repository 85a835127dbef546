"""keras on its JAX backend: the stateless training step of its own guide, with an optax optimizer beside."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

from tests.zoo.harness import Training, model
from tests.zoo.training import adam, cross_entropy, integers, normal

BATCH, CLASSES = 8, 8


def _keras() -> Any:
    """The package; it reads its backend from the environment when it is first imported."""
    os.environ["KERAS_BACKEND"] = "jax"
    return pytest.importorskip("keras")


def _trained(
    build: Callable[[Any], Any], x: jax.Array, own_optimizer: bool = False, training: bool = True
) -> Training:
    keras = _keras()
    keras.utils.set_random_seed(0)
    net = build(keras)
    labels = integers(1, CLASSES, BATCH)

    def loss(trained: Any, others: Any, x: jax.Array, labels: jax.Array) -> Any:
        logits, others = net.stateless_call(trained, others, x, training=training)
        return cross_entropy(logits, labels), others

    trained = [jnp.array(v.value) for v in net.trainable_variables]
    others = [jnp.array(v.value) for v in net.non_trainable_variables]
    if own_optimizer:
        keras_optimizer = keras.optimizers.AdamW(0.01, epsilon=1e-3)
        keras_optimizer.build(net.trainable_variables)
        moments: Any = [jnp.array(v.value) for v in keras_optimizer.variables]

        def update(trained: Any, grads: Any, moments: Any) -> tuple[Any, Any]:
            return keras_optimizer.stateless_apply(moments, grads, trained)
    else:
        optimizer = adam()
        moments = optimizer.init(trained)

        def update(trained: Any, grads: Any, moments: Any) -> tuple[Any, Any]:
            updates, moments = optimizer.update(grads, moments, trained)
            return optax.apply_updates(trained, updates), moments

    def step(state: Any, x: jax.Array, labels: jax.Array) -> tuple[Any, Any]:
        trained, others, moments = state
        (value, others), grads = jax.value_and_grad(loss, has_aux=True)(trained, others, x, labels)
        trained, moments = update(trained, grads, moments)
        return (trained, others, moments), value

    return Training(step, (trained, others, moments), (x, labels))


@model("keras", "ConvNet: batch norm, separable convolution, dropout")
def test_convnet() -> Training:
    def build(keras: Any) -> Any:
        layers = keras.layers
        return keras.Sequential(
            [
                keras.Input((8, 8, 3)),
                layers.Conv2D(8, 3, padding="same"),
                layers.BatchNormalization(),
                layers.ReLU(),
                layers.SeparableConv2D(16, 3, strides=2, padding="same"),
                layers.MaxPooling2D(2),
                layers.Flatten(),
                layers.Dropout(0.2, seed=1),
                layers.Dense(CLASSES),
            ]
        )

    return _trained(build, normal(0, BATCH, 8, 8, 3))


@model("keras", "transformer layer, keras.optimizers.AdamW")
def test_transformer() -> Training:
    def build(keras: Any) -> Any:
        layers = keras.layers
        tokens = keras.Input((8,), dtype="int32")
        x = layers.Embedding(32, 16)(tokens)
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 4)(x, x))
        x = layers.LayerNormalization()(x + layers.Dense(16)(layers.Dense(32, activation="gelu")(x)))
        return keras.Model(tokens, layers.Dense(CLASSES)(layers.GlobalAveragePooling1D()(x)))

    return _trained(build, integers(2, 32, BATCH, 8), own_optimizer=True)


@model("keras", "bidirectional LSTM and GRU")
def test_recurrent() -> Training:
    def build(keras: Any) -> Any:
        layers = keras.layers
        return keras.Sequential(
            [
                keras.Input((8, 8)),
                layers.Bidirectional(layers.LSTM(8, return_sequences=True)),
                layers.GRU(16),
                layers.Dense(CLASSES),
            ]
        )

    return _trained(build, normal(0, BATCH, 8, 8))


@model("keras", "MobileNetV2 (keras.applications), fixed statistics")
def test_mobilenet() -> Training:
    def build(keras: Any) -> Any:
        return keras.applications.MobileNetV2(
            (32, 32, 3), alpha=0.1, weights=None, classes=CLASSES, classifier_activation=None
        )

    # In training mode eight images of 32 pixels end as eight values a channel: batch norm over those turns a
    # change of 1e-7 in the parameters into one of 1e-5 in the loss, on one device already.
    return _trained(build, normal(0, BATCH, 32, 32, 3), training=False)
