"""Dense layers: the weights outweigh the activations, or there are many of both."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .layers import cross_entropy, init_params, mlp_shapes
from .layers import mlp as apply_mlp
from .training import Workload, training


def mlp(layers: int, quick: bool) -> Workload:
    """Wide layers and a small batch: the weights outweigh the activations."""
    width, rows = (128, 16) if quick else (8192, 64)

    def loss(params: Any, batch: Any) -> jax.Array:
        x, y = batch
        for weight, bias in params:
            x = jax.nn.relu(x @ weight + bias)
        return jnp.mean((x - y) ** 2)

    def make_batch(key: jax.Array) -> Any:
        x, y = jax.random.normal(key, (2, rows, width))
        return x, y

    return training(loss, lambda key: init_params(key, [((width, width), (width,))] * layers), make_batch)


def wide_mlp(layers: int, quick: bool) -> Workload:
    """A classifier of residual blocks, each a transformer's feed-forward half (Vaswani et al. 2017, 3.3)."""
    width, hidden, rows, features, classes = (
        (32, 128, 16, 16, 16) if quick else (4096, 16384, 1024, 1024, 1024)
    )

    def loss(params: Any, batch: Any) -> jax.Array:
        x, labels = batch
        x = apply_mlp(params["in"], x)
        for block in params["blocks"]:
            x = x + apply_mlp(block, x)
        return cross_entropy(apply_mlp(params["head"], x), labels)

    def init(key: jax.Array) -> Any:
        blocks = [mlp_shapes(width, hidden, width)] * layers
        shapes = {"in": mlp_shapes(features, width), "blocks": blocks, "head": mlp_shapes(width, classes)}
        return init_params(key, shapes)

    def make_batch(key: jax.Array) -> Any:
        x_key, label_key = jax.random.split(key)
        return jax.random.normal(x_key, (rows, features)), jax.random.randint(label_key, (rows,), 0, classes)

    return training(loss, init, make_batch)
