"""keras on its JAX backend: the stateless training step of its own guide."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

from tests.zoo.harness import Training
from tests.zoo.training import adam


def keras_module(name: str = "keras") -> Any:
    """The package, or one that builds on it; keras reads its backend when it is first imported."""
    os.environ["KERAS_BACKEND"] = "jax"
    return pytest.importorskip(name)


def train_keras(
    build: Callable[[], Any],
    loss: Callable[..., Any],
    batch: tuple[Any, ...],
    *,
    own_optimizer: bool = False,
    training: bool = True,
) -> Training:
    """A step on ``loss(outputs, labels)`` over what ``build`` makes.

    Args:
        build: makes the model, from keras' fixed seed.
        loss: a function of the model's outputs and of ``batch[1]``.
        batch: the model's inputs and the labels.
        own_optimizer: keras' AdamW instead of optax' Adam.
        training: whether dropout draws and batch norm counts.
    """
    keras = keras_module()
    keras.utils.set_random_seed(0)
    net = build()

    def value(trained: Any, others: Any, x: Any, labels: Any) -> Any:
        outputs, others = net.stateless_call(trained, others, x, training=training)
        return loss(outputs, labels), others

    trained, others = _arrays(net.trainable_variables), _arrays(net.non_trainable_variables)
    if own_optimizer:
        moments, update = _own_optimizer(keras, net)
    else:
        moments, update = adam().init(trained), _optax_update

    def step(state: Any, x: Any, labels: Any) -> tuple[Any, Any]:
        trained, others, moments = state
        (result, others), grads = jax.value_and_grad(value, has_aux=True)(trained, others, x, labels)
        trained, moments = update(trained, grads, moments)
        return (trained, others, moments), result

    return Training(step, (trained, others, moments), batch)


def _arrays(variables: Any) -> list[jax.Array]:
    return [jnp.array(v.value) for v in variables]


def _own_optimizer(keras: Any, net: Any) -> tuple[Any, Callable[..., Any]]:
    optimizer = keras.optimizers.AdamW(0.01, epsilon=1e-3)
    optimizer.build(net.trainable_variables)
    return _arrays(optimizer.variables), lambda t, g, m: optimizer.stateless_apply(m, g, t)


def _optax_update(trained: Any, grads: Any, moments: Any) -> tuple[Any, Any]:
    updates, moments = adam().update(grads, moments, trained)
    return optax.apply_updates(trained, updates), moments
