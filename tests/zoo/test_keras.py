"""keras' layers and ``keras.applications`` on its JAX backend, with an optax optimizer or its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from tests.zoo.harness import Training, model
from tests.zoo.keras_training import keras_module, train_keras
from tests.zoo.training import cross_entropy, integers, normal

BATCH, CLASSES = 8, 8


def _trained(build: Callable[[Any], Any], x: jax.Array, **options: Any) -> Training:
    """A classifier; ``build`` takes the package."""
    keras = keras_module()
    return train_keras(lambda: build(keras), cross_entropy, (x, integers(1, CLASSES, BATCH)), **options)


@model("keras", "ConvNet: batch norm, separable convolution, dropout", kind="ConvNet, batch norm")
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


@model("keras", "bidirectional LSTM and GRU", kind="recurrent network")
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


@model("keras", "MobileNetV2 (keras.applications), fixed statistics", own=True)
def test_mobilenet() -> Training:
    def build(keras: Any) -> Any:
        return keras.applications.MobileNetV2(
            (32, 32, 3), alpha=0.1, weights=None, classes=CLASSES, classifier_activation=None
        )

    # In training mode eight images of 32 pixels end as eight values a channel: batch norm over those turns a
    # change of 1e-7 in the parameters into one of 1e-5 in the loss, on one device already.
    return _trained(build, normal(0, BATCH, 32, 32, 3), training=False)
