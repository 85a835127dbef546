"""optax: an MLP under each optimizer."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

from tests.zoo.harness import Training, model
from tests.zoo.training import ADAM_EPS, mean_square, normal, train

EPS = {"eps": ADAM_EPS}
SIZES = ((16, 32), (32, 32), (32, 8))


def _mlp(optimizer: optax.GradientTransformation) -> Training:
    params = {
        f"layer{i}": {"kernel": normal(i, *size, scale=0.3), "bias": jnp.zeros(size[1])}
        for i, size in enumerate(SIZES)
    }

    def loss(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        for layer in params.values():
            x = jnp.tanh(x @ layer["kernel"] + layer["bias"])
        return mean_square(x, y)

    return train(loss, params, (normal(8, 16, 16), normal(9, 16, 8)), optimizer)


def _kinds(params: Any) -> Any:
    return jax.tree.map(lambda leaf: "matrix" if leaf.ndim == 2 else "vector", params)


@model("optax", "SGD, Nesterov momentum, chain: clip by norm, decay, schedule")
def test_chain() -> Training:
    schedule = optax.warmup_cosine_decay_schedule(0.0, 0.1, 2, 10)
    sgd = optax.sgd(schedule, momentum=0.9, nesterov=True)
    return _mlp(optax.chain(optax.clip_by_global_norm(0.5), optax.add_decayed_weights(1e-3), sgd))


@model("optax", "adafactor: factored second moments")
def test_adafactor() -> Training:
    return _mlp(optax.adafactor(0.05, min_dim_size_to_factor=8))


@model("optax", "multi_transform and masked: AdamW, SGD")
def test_multi_transform() -> Training:
    kinds = {"matrix": optax.adamw(0.01, **EPS), "vector": optax.sgd(0.1, momentum=0.9)}
    decay = optax.masked(optax.add_decayed_weights(1e-2), lambda p: jax.tree.map(lambda x: x.ndim == 2, p))
    return _mlp(optax.chain(decay, optax.multi_transform(kinds, _kinds)))


@model("optax", "lion")
def test_lion() -> Training:
    return _mlp(optax.lion(1e-3))


@model("optax", "LAMB")
def test_lamb() -> Training:
    return _mlp(optax.lamb(0.01, **EPS))


@model("optax", "LARS")
def test_lars() -> Training:
    return _mlp(optax.lars(0.1))


@model("optax", "Muon: Newton-Schulz iterations")
def test_muon() -> Training:
    if not hasattr(optax.contrib, "muon"):
        pytest.skip("this optax has no muon")
    return _mlp(optax.contrib.muon(0.02))


@model("optax", "RMSProp, centered")
def test_rmsprop() -> Training:
    return _mlp(optax.rmsprop(0.01, centered=True, momentum=0.9, **EPS))


@model("optax", "AdaBelief")
def test_adabelief() -> Training:
    return _mlp(optax.adabelief(0.01, **EPS))


@model("optax", "MultiSteps: gradients of several steps added up")
def test_multi_steps() -> Training:
    steps = optax.MultiSteps(optax.adam(0.01, **EPS), every_k_schedule=2)
    return _mlp(optax.GradientTransformation(steps.init, steps.update))


@model("optax", "schedule-free AdamW")
def test_schedule_free() -> Training:
    return _mlp(optax.contrib.schedule_free_adamw(0.01, **EPS))
