"""equimo: vision models in equinox."""

from __future__ import annotations

import importlib
from typing import Any

import jax
import optax
import pytest

from tests.zoo.harness import Training, model
from tests.zoo.training import cross_entropy, integers, normal, train

eqx = pytest.importorskip("equinox")
KEY = jax.random.PRNGKey(0)
BATCH, CLASSES = 8, 8

SGD = optax.sgd(0.05, momentum=0.9)
"""Where a layer's scale or bias cancels in a norm after it, its gradient is rounding, and Adam makes steps of that."""


def _classifier(
    module: str,
    name: str,
    image: int,
    *args: Any,
    optimizer: optax.GradientTransformation | None = None,
    **options: Any,
) -> Training:
    """``equimo.models.<module>.<name>`` on square images, trained to tell classes apart."""
    pytest.importorskip("equimo")
    make = getattr(importlib.import_module(f"equimo.models.{module}"), name)
    params, static = eqx.partition(make(*args, num_classes=CLASSES, key=KEY, **options), eqx.is_inexact_array)
    keys = jax.random.split(KEY, BATCH)

    def loss(params: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
        net = eqx.combine(params, static)
        return cross_entropy(jax.vmap(lambda x, key: net(x, key=key))(images, keys), labels)

    return train(loss, params, (normal(0, BATCH, 3, image, image), integers(1, CLASSES, BATCH)), optimizer)


@model("equimo", "ViT with registers and rotary embedding", own=True, kind="vision transformer")
def test_vit() -> Training:
    options = {"dim": 16, "patch_size": 4, "num_heads": 4, "depths": [2]}
    return _classifier("vit", "VisionTransformer", 8, 8, 3, use_local_pos_embed=True, **options)


@model("equimo", "ConvNeXt", own=True)
def test_convnext() -> Training:
    return _classifier("convnext", "ConvNeXt", 32, 3, depths=[1, 1, 1, 1], dims=[8, 8, 16, 16])


@model("equimo", "MLLA: linear attention", own=True)
def test_mlla() -> Training:
    options = {"dim": 8, "depths": [1, 1], "num_heads": [2, 2]}
    return _classifier("mlla", "Mlla", 16, 16, 3, **options)


@model("equimo", "VSSD: non-causal Mamba-2 mixers", own=True, kind="state space or linear recurrence")
def test_vssd() -> Training:
    options = {"dim": 8, "d_state": 8, "depths": [1, 1], "num_heads": [2, 2]}
    return _classifier("vssd", "Vssd", 16, 16, 3, attentions_layers=("mamba2mixer", "attention"), **options)


@model("equimo", "ViT, stochastic depth", own=True)
def test_stochastic_depth() -> Training:
    options = {"dim": 16, "patch_size": 4, "num_heads": 4, "depths": [2], "drop_path_rate": 0.2}
    return _classifier("vit", "VisionTransformer", 8, 8, 3, **options)


@model("equimo", "AttNet: attention-like convolutions", own=True)
def test_attnet() -> Training:
    options = {"dims": [16, 32], "depths": [1, 1], "exp_rates": [2, 2], "kernel_sizes": [3, 3]}
    return _classifier("attnet", "AttNet", 64, 3, optimizer=SGD, **options)


@model("equimo", "iFormer: convolutions, then single-head modulation attention", own=True)
def test_iformer() -> Training:
    feed = {"kernel_size": 3, "expand_ratio": 2.0}
    attention = {"num_heads": 1, "head_dim_reduce_ratio": 2, "attn_ratio": 1.0, "ffn_ratio": 2.0}
    return _classifier(
        "iformer",
        "IFormer",
        64,
        3,
        optimizer=SGD,
        modules=["iformerblock", "iformerblock", "shmablock"],
        module_kwargs=[feed, feed, attention],
        downsamplers=["iformerstem", "convnormdownsampler", "convnormdownsampler"],
        downsampler_kwargs=[{}, {}, {}],
        dims=[8, 16, 16],
        depths=[1, 1, 1],
    )


@model("equimo", "LowFormer: attention on a reduced image", own=True)
def test_lowformer() -> Training:
    options = {"widths": [8, 8, 16, 16], "depths": [0, 1, 1, 1], "att_strides": [2, 2, 2, 1]}
    blocks = ["conv", "conv", "attention", "attention"]
    return _classifier(
        "lowformer",
        "LowFormer",
        32,
        3,
        **options,
        block_types=blocks,
        attention_type="softmax",
        fuse_mbconv=True,
    )


@model("equimo", "MobileNet v3: squeeze and excite", own=True)
def test_mobilenet() -> Training:
    layers = [(8, 8, 3, 2, True, "relu"), (8, 16, 3, 2, False, "relu"), (16, 32, 5, 1, True, "hard_swish")]
    return _classifier("mobilenet", "MobileNetv3", 32, 3, layers, last_channels=32)


@model("equimo", "PartialFormer: attention among foreground patches", own=True)
def test_partialformer() -> Training:
    options = {"dim": 8, "num_heads": [2, 2], "depths": [1, 1], "foreground_ratios": 0.5, "patch_size": 2}
    return _classifier("partialformer", "PartialFormer", 32, 32, 3, **options)


@model("equimo", "ReduceFormer: attention by sums", own=True)
def test_reduceformer() -> Training:
    options = {"widths": [8, 8, 16], "depths": [1, 1, 1], "block_types": ["conv", "conv", "attention"]}
    return _classifier("reduceformer", "ReduceFormer", 32, 3, **options, head_dim=8, expand_ratio=2.0)
