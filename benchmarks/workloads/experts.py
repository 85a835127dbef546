"""A mixture of experts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .layers import init_params
from .training import Workload, training


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

    def init(key: jax.Array) -> Any:
        up, down = (experts, width, 4 * width), (experts, 4 * width, width)
        return init_params(key, [{"router": (width, experts), "up": up, "down": down}] * layers)

    return training(loss, init, lambda key: jax.random.normal(key, (tokens, width)))
