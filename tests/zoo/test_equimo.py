"""equimo: vision models in equinox."""

from __future__ import annotations

import importlib
from typing import Any

import jax
import pytest

from tests.zoo.harness import Training, model
from tests.zoo.training import cross_entropy, integers, normal, train

eqx = pytest.importorskip("equinox")
KEY = jax.random.PRNGKey(0)
BATCH, CLASSES = 8, 8


def _classifier(module: str, name: str, image: int, *args: Any, **options: Any) -> Training:
    """``equimo.models.<module>.<name>`` on square images, trained to tell classes apart."""
    pytest.importorskip("equimo")
    make = getattr(importlib.import_module(f"equimo.models.{module}"), name)
    params, static = eqx.partition(make(*args, num_classes=CLASSES, key=KEY, **options), eqx.is_inexact_array)
    keys = jax.random.split(KEY, BATCH)

    def loss(params: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
        net = eqx.combine(params, static)
        return cross_entropy(jax.vmap(lambda x, key: net(x, key=key))(images, keys), labels)

    return train(loss, params, (normal(0, BATCH, 3, image, image), integers(1, CLASSES, BATCH)))


@model("equimo", "ViT with registers and rotary embedding")
def test_vit() -> Training:
    options = {"dim": 16, "patch_size": 4, "num_heads": 4, "depths": [2]}
    return _classifier("vit", "VisionTransformer", 8, 8, 3, use_local_pos_embed=True, **options)


@model("equimo", "ConvNeXt")
def test_convnext() -> Training:
    return _classifier("convnext", "ConvNeXt", 32, 3, depths=[1, 1, 1, 1], dims=[8, 8, 16, 16])


@model("equimo", "MLLA: linear attention")
def test_mlla() -> Training:
    options = {"dim": 8, "depths": [1, 1], "num_heads": [2, 2]}
    return _classifier("mlla", "Mlla", 16, 16, 3, **options)


@model("equimo", "VSSD: non-causal Mamba-2 mixers")
def test_vssd() -> Training:
    options = {"dim": 8, "d_state": 8, "depths": [1, 1], "num_heads": [2, 2]}
    return _classifier("vssd", "Vssd", 16, 16, 3, attentions_layers=("mamba2mixer", "attention"), **options)


@model("equimo", "ViT, stochastic depth")
def test_stochastic_depth() -> Training:
    options = {"dim": 16, "patch_size": 4, "num_heads": 4, "depths": [2], "drop_path_rate": 0.2}
    return _classifier("vit", "VisionTransformer", 8, 8, 3, **options)
