"""What a workload is, and how a loss becomes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import optax

Step = Callable[[Any, Any], tuple[Any, jax.Array]]


@dataclass(frozen=True)
class Workload:
    """A training step and what it takes.

    Attributes:
        step: the function to plan: ``step(state, batch) -> (state, loss)``.
        args: shapes of its arguments.
        make_args: makes arguments of these shapes from a random key; full sizes may not fit one device.
    """

    step: Step
    args: tuple[Any, ...]
    make_args: Callable[[jax.Array], tuple[Any, ...]]


def training(
    loss: Callable[[Any, Any], jax.Array], init: Callable[[jax.Array], Any], batch: Callable[[jax.Array], Any]
) -> Workload:
    """A training step of a loss with ``optax.adamw``; its state is ``(params, opt_state)``.

    Args:
        loss: of parameters and batch.
        init: makes the parameters from a random key.
        batch: makes a batch from a random key.
    """
    optimizer = optax.adamw(3e-4, b2=0.95, weight_decay=0.1)

    def train_step(state: Any, batch: Any) -> tuple[Any, jax.Array]:
        params, opt_state = state
        value, grads = jax.value_and_grad(loss)(params, batch)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return (optax.apply_updates(params, updates), opt_state), value

    def make_args(key: jax.Array) -> tuple[Any, ...]:
        init_key, batch_key = jax.random.split(key)
        params = init(init_key)
        return (params, optimizer.init(params)), batch(batch_key)

    return Workload(train_step, jax.eval_shape(make_args, jax.random.key(0)), make_args)
