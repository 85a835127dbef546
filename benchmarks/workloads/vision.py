"""Transformers on patches of images: a classifier and a denoiser. Matrix products are bfloat16."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from .layers import (
    Params,
    attention,
    attention_shapes,
    cross_entropy,
    init_params,
    mlp,
    mlp_shapes,
    norm,
    norm_shapes,
    standardized,
)
from .training import Workload, training


def vit(layers: int, quick: bool) -> Workload:
    """ViT-L's widths (Dosovitskiy et al. 2021) with a mean pool instead of a class token."""
    rows, side, patch, width, heads = (8, 16, 4, 32, 4) if quick else (128, 256, 16, 1024, 16)
    classes, colours = (16 if quick else 1024), 3

    def loss(params: Any, batch: Any) -> jax.Array:
        images, labels = batch
        x = mlp(params["patch"], _patches(images, patch).astype(jnp.bfloat16))
        x = x + params["position"].astype(x.dtype)
        for block in params["blocks"]:
            normed = norm(block["norm_attention"], x)
            x = x + attention(block["attention"], normed, normed)
            x = x + mlp(block["mlp"], norm(block["norm_mlp"], x), jax.nn.gelu)
        return cross_entropy(mlp(params["head"], norm(params["norm"], x).mean(1)), labels)

    def init(key: jax.Array) -> Any:
        shapes = {
            "patch": mlp_shapes(patch * patch * colours, width),
            "position": ((side // patch) ** 2, width),
            "blocks": [_encoder_shapes(width, heads)] * layers,
            "norm": norm_shapes(width),
            "head": mlp_shapes(width, classes),
        }
        return init_params(key, shapes)

    def make_batch(key: jax.Array) -> Any:
        image_key, label_key = jax.random.split(key)
        images = jax.random.normal(image_key, (rows, side, side, colours))
        return images, jax.random.randint(label_key, (rows,), 0, classes)

    return training(loss, init, make_batch)


def diffusion(layers: int, quick: bool) -> Workload:
    """A denoiser of latent images with the widths of DiT-L (Peebles and Xie 2023).

    The time step modulates each block (adaLN) and the loss is the error of the predicted noise (Ho et al.
    2020) under the cosine schedule (Nichol and Dhariwal 2021).
    """
    rows, side, width, heads = (8, 8, 32, 4) if quick else (64, 32, 1024, 16)
    patch, channels, frequencies = 2, 4, (16 if quick else 256)

    def denoise(params: Any, noisy: jax.Array, time: jax.Array) -> jax.Array:
        x = mlp(params["patch"], _patches(noisy, patch).astype(jnp.bfloat16))
        x = x + params["position"].astype(x.dtype)
        condition = jax.nn.silu(
            mlp(params["time"], _sinusoids(time, frequencies).astype(x.dtype), jax.nn.silu)
        )
        for block in params["blocks"]:
            x = _modulated_block(block, x, condition)
        shift, scale = _modulation(params["modulation"], condition, 2)
        return mlp(params["head"], _modulated(x, shift, scale)).astype(jnp.float32)

    def loss(params: Any, batch: Any) -> jax.Array:
        latents, noise, time = batch
        angle = (0.5 * math.pi * time)[:, None, None, None]
        predicted = denoise(params, jnp.cos(angle) * latents + jnp.sin(angle) * noise, time)
        return jnp.mean((predicted - _patches(noise, patch)) ** 2)

    def init(key: jax.Array) -> Any:
        values = patch * patch * channels
        block = {**_encoder_shapes(width, heads), "modulation": mlp_shapes(width, 6 * width)}
        shapes = {
            "patch": mlp_shapes(values, width),
            "position": ((side // patch) ** 2, width),
            "time": mlp_shapes(frequencies, width, width),
            "blocks": [{k: v for k, v in block.items() if not k.startswith("norm")}] * layers,
            "modulation": mlp_shapes(width, 2 * width),
            "head": mlp_shapes(width, values),
        }
        return init_params(key, shapes)

    def make_batch(key: jax.Array) -> Any:
        image_key, time_key = jax.random.split(key)
        latents, noise = jax.random.normal(image_key, (2, rows, side, side, channels))
        return latents, noise, jax.random.uniform(time_key, (rows,))

    return training(loss, init, make_batch)


def _patches(images: jax.Array, patch: int) -> jax.Array:
    """[batch, side, side, channels] to [batch, patches, values of a patch]."""
    rows, side, _, channels = images.shape
    grid = images.reshape(rows, side // patch, patch, side // patch, patch, channels)
    return grid.transpose(0, 1, 3, 2, 4, 5).reshape(rows, (side // patch) ** 2, patch * patch * channels)


def _encoder_shapes(width: int, heads: int) -> Params:
    return {
        "norm_attention": norm_shapes(width),
        "attention": attention_shapes(width, heads),
        "norm_mlp": norm_shapes(width),
        "mlp": mlp_shapes(width, 4 * width, width),
    }


def _modulated_block(block: Params, x: jax.Array, condition: jax.Array) -> jax.Array:
    shift, scale, gate, mlp_shift, mlp_scale, mlp_gate = _modulation(block["modulation"], condition, 6)
    normed = _modulated(x, shift, scale)
    x = x + gate * attention(block["attention"], normed, normed)
    return x + mlp_gate * mlp(block["mlp"], _modulated(x, mlp_shift, mlp_scale), jax.nn.gelu)


def _modulation(params: list[Params], condition: jax.Array, parts: int) -> list[jax.Array]:
    return jnp.split(mlp(params, condition)[:, None], parts, -1)


def _modulated(x: jax.Array, shift: jax.Array, scale: jax.Array) -> jax.Array:
    return standardized(x).astype(x.dtype) * (1 + scale) + shift


def _sinusoids(time: jax.Array, count: int) -> jax.Array:
    """Sines and cosines of a time in 0..1, [batch, count]."""
    rates = 1000 * jnp.exp(-math.log(10_000) * jnp.arange(count // 2) / (count // 2))
    angles = time[:, None] * rates
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1)
