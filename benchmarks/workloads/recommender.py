"""Embedding tables of a recommender, float32."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .layers import init_params, mlp, mlp_shapes
from .training import Workload, training


def dlrm(layers: int, quick: bool) -> Workload:
    """A click predictor: tables, pairwise products and two perceptrons (DLRM, Naumov et al. 2019).

    Args:
        layers: hidden layers of the perceptron on top.
        quick: tiny sizes.
    """
    tables, rows, width, hidden, count = (3, 64, 16, 32, 32) if quick else (31, 65536, 64, 1024, 8192)
    dense = 16
    low, high = np.tril_indices(tables + 1, -1)

    def loss(params: Any, batch: Any) -> jax.Array:
        numbers, categories, clicked = batch
        below = jax.nn.relu(mlp(params["bottom"], numbers))
        looked_up = [table[categories[:, i]] for i, table in enumerate(params["tables"])]
        features = jnp.stack([below, *looked_up], 1)
        products = jnp.einsum("bnd,bmd->bnm", features, features)[:, low, high]
        logits = mlp(params["top"], jnp.concatenate([below, products], -1))[:, 0]
        return optax.sigmoid_binary_cross_entropy(logits, clicked).mean()

    def init(key: jax.Array) -> Any:
        shapes = {
            "bottom": mlp_shapes(dense, hidden // 2, hidden // 4, width),
            "tables": [(rows, width)] * tables,
            "top": mlp_shapes(width + len(low), *[hidden] * layers, 1),
        }
        return init_params(key, shapes)

    def make_batch(key: jax.Array) -> Any:
        number_key, category_key, click_key = jax.random.split(key, 3)
        return (
            jax.random.normal(number_key, (count, dense)),
            jax.random.randint(category_key, (count, tables), 0, rows),
            jax.random.bernoulli(click_key, 0.25, (count,)).astype(jnp.float32),
        )

    return training(loss, init, make_batch)
