"""Short ways to a training step: from a loss and an optimizer, for parameters that are a pytree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from tests.zoo.harness import Training

ADAM_EPS = 1e-3
"""Adam divides by the gradient's size; with the usual 1e-8 it makes large steps out of rounding differences."""


def adam(rate: float = 1e-2) -> optax.GradientTransformation:
    """Adam that does not amplify rounding."""
    return optax.adam(rate, eps=ADAM_EPS)


def train(
    loss: Callable[..., Any],
    params: Any,
    batch: tuple[Any, ...],
    optimizer: optax.GradientTransformation | None = None,
) -> Training:
    """A step on ``loss(params, *batch)``; its state is (parameters, optimizer state)."""
    optimizer = optimizer or adam()

    def step(state: Any, *batch: Any) -> tuple[Any, Any]:
        params, moments = state
        value, grads = jax.value_and_grad(loss)(params, *batch)
        updates, moments = optimizer.update(grads, moments, params)
        return (optax.apply_updates(params, updates), moments), value

    return Training(step, (params, optimizer.init(params)), batch)


def train_with(
    loss: Callable[..., Any],
    params: Any,
    extra: Any,
    batch: tuple[Any, ...],
    optimizer: optax.GradientTransformation | None = None,
) -> Training:
    """A step on ``loss(params, extra, *batch) -> (loss, extra)``, for statistics and random keys."""
    optimizer = optimizer or adam()

    def step(state: Any, *batch: Any) -> tuple[Any, Any]:
        params, moments, extra = state
        (value, extra), grads = jax.value_and_grad(loss, has_aux=True)(params, extra, *batch)
        updates, moments = optimizer.update(grads, moments, params)
        return (optax.apply_updates(params, updates), moments, extra), value

    return Training(step, (params, optimizer.init(params), extra), batch)


def train_equinox(
    net: Any,
    loss: Callable[..., Any],
    batch: tuple[Any, ...],
    optimizer: optax.GradientTransformation | None = None,
) -> Training:
    """A step on ``loss(net, *batch)`` over the floating-point arrays of an equinox module."""
    import equinox as eqx

    params, static = eqx.partition(net, eqx.is_inexact_array)
    return train(lambda params, *batch: loss(eqx.combine(params, static), *batch), params, batch, optimizer)


def train_nnx(net: Any, loss: Callable[..., Any], batch: tuple[Any, ...]) -> Training:
    """A step on ``loss(net, *batch)`` over a module's parameters.

    The other variables (statistics, random keys) are carried.
    """
    from flax import nnx

    graph, params, others = nnx.split(net, nnx.Param, ...)

    def value(params: Any, others: Any, *batch: Any) -> tuple[Any, Any]:
        net = nnx.merge(graph, params, others, copy=True)
        return loss(net, *batch), nnx.split(net, nnx.Param, ...)[2]

    return train_with(value, params, others, batch)


def normal(seed: int, *shape: int, scale: float = 1.0) -> jax.Array:
    """Normal numbers, the same in each run."""
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape) * scale, jnp.float32)


def integers(seed: int, high: int, *shape: int) -> jax.Array:
    """Uniform numbers below ``high``, the same in each run."""
    return jnp.asarray(np.random.default_rng(seed).integers(0, high, size=shape), jnp.int32)


def cross_entropy(logits: Any, labels: Any) -> Any:
    """Mean cross-entropy of integer labels."""
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def mean_square(prediction: Any, target: Any) -> Any:
    """Mean of squared differences."""
    return jnp.mean(jnp.square(prediction - target))
