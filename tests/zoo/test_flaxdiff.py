"""flaxdiff: diffusion models in linen, each with a denoising step of its own noise and times."""

from __future__ import annotations

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.zoo.harness import Training, model
from tests.zoo.training import mean_square, normal, train_with

BATCH = 8
PATCHES = {"patch_size": 4, "emb_features": 16, "num_layers": 2, "num_heads": 2, "mlp_ratio": 2}


def _denoiser(module: str, name: str, text: bool = True, **options: Any) -> Training:
    """Noise predicted from a noisy image at a random time; the random key is part of the state."""
    pytest.importorskip("flaxdiff")
    net = getattr(importlib.import_module(f"flaxdiff.models.{module}"), name)(**options)
    images, words = normal(0, BATCH, 16, 16, 3), normal(1, BATCH, 4, 16)
    context = (words,) if text else ()
    params = net.init(jax.random.key(0), images, jnp.ones(BATCH), *context)

    def loss(params: Any, key: jax.Array, images: jax.Array, *context: jax.Array) -> Any:
        key, for_times, for_noise = jax.random.split(key, 3)
        times = jax.random.uniform(for_times, (BATCH,))
        noise = jax.random.normal(for_noise, images.shape)
        angle = times[:, None, None, None] * jnp.pi / 2
        noisy = jnp.cos(angle) * images + jnp.sin(angle) * noise
        return mean_square(net.apply(params, noisy, times, *context), noise), key

    return train_with(loss, params, jax.random.key(1), (images, *context))


@model("flaxdiff", "U-Net with attention and text", own=True, kind="U-Net")
def test_unet() -> Training:
    heads = ({"heads": 2}, {"heads": 2})
    return _denoiser(
        "simple_unet",
        "Unet",
        emb_features=16,
        feature_depths=(8, 16),
        attention_configs=heads,
        num_res_blocks=1,
        norm_groups=4,
    )


@model("flaxdiff", "DiT: adaptive norm, rotary attention", own=True, kind="diffusion")
def test_dit() -> Training:
    return _denoiser("simple_dit", "SimpleDiT", **PATCHES)


@model("flaxdiff", "MM-DiT: image and text", own=True, kind="diffusion")
def test_mmdit() -> Training:
    return _denoiser("simple_mmdit", "SimpleMMDiT", **PATCHES)


@model(
    "flaxdiff", "hybrid S5 state-space and attention DiT", own=True, kind="state space or linear recurrence"
)
def test_ssm_dit() -> Training:
    options = {**PATCHES, "block_pattern": ("ssm", "attn"), "ssm_state_dim": 8}
    return _denoiser("ssm_dit", "HybridSSMAttentionDiT", **options)


@model("flaxdiff", "U-ViT: long skips", own=True, kind="diffusion")
def test_uvit() -> Training:
    options = {k: v for k, v in PATCHES.items() if k != "mlp_ratio"}
    return _denoiser("simple_vit", "UViT", dropout_rate=0.0, norm_groups=0, **options)
