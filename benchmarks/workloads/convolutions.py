"""Convolutional networks on NHWC images, float32."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .layers import NHWC, cross_entropy, group_norm, init_params, norm_shapes
from .training import Workload, training


def cnn(layers: int, quick: bool) -> Workload:
    """Residual 3x3 convolutions on small images (He et al. 2016): few weights, many activations."""
    rows, side, channels = (16, 8, 16) if quick else (512, 32, 128)
    classes = 16

    def loss(params: Any, batch: Any) -> jax.Array:
        x, labels = batch
        for kernel in params["kernels"]:
            x = x + jax.nn.relu(_convolve(x, kernel))
        return cross_entropy(x.mean((1, 2)) @ params["head"], labels)

    def init(key: jax.Array) -> Any:
        kernels = [(3, 3, channels, channels)] * layers
        return init_params(key, {"kernels": kernels, "head": (channels, classes)})

    def make_batch(key: jax.Array) -> Any:
        image_key, label_key = jax.random.split(key)
        images = jax.random.normal(image_key, (rows, side, side, channels))
        return images, jax.random.randint(label_key, (rows,), 0, classes)

    return training(loss, init, make_batch)


def unet(layers: int, quick: bool) -> Workload:
    """Segmentation by a U-Net (Ronneberger et al. 2015) with group norm (Wu and He 2018).

    Args:
        layers: convolutions on each level of either side.
        quick: tiny sizes.
    """
    rows, side, widths, groups = (8, 8, (8, 16), 4) if quick else (64, 128, (64, 128, 256, 512), 16)
    channels, classes = 8, 16

    def loss(params: Any, batch: Any) -> jax.Array:
        x, labels = batch
        x = _convolve(x, params["stem"])
        skips = []
        for level in params["down"]:
            x = _level(level["blocks"], x, groups)
            skips.append(x)
            x = _convolve(x, level["resize"], 2)
        x = _level(params["bottom"], x, groups)
        for level, skip in zip(params["up"], reversed(skips), strict=True):
            x = jax.lax.conv_transpose(x, level["resize"], (2, 2), "SAME", dimension_numbers=NHWC)
            x = _level(level["blocks"], jnp.concatenate([skip, x], -1), groups)
        return cross_entropy(x @ params["head"], labels)

    def init(key: jax.Array) -> Any:
        pairs = list(zip(widths[:-1], widths[1:], strict=True))
        down = [{"blocks": _level_shapes(n, n, layers), "resize": (3, 3, n, m)} for n, m in pairs]
        up = [{"resize": (2, 2, m, n), "blocks": _level_shapes(2 * n, n, layers)} for n, m in reversed(pairs)]
        bottom = _level_shapes(widths[-1], widths[-1], layers)
        ends = {"stem": (3, 3, channels, widths[0]), "head": (widths[0], classes)}
        return init_params(key, {**ends, "down": down, "bottom": bottom, "up": up})

    def make_batch(key: jax.Array) -> Any:
        image_key, label_key = jax.random.split(key)
        images = jax.random.normal(image_key, (rows, side, side, channels))
        return images, jax.random.randint(label_key, (rows, side, side), 0, classes)

    return training(loss, init, make_batch)


def _level(blocks: Any, x: jax.Array, groups: int) -> jax.Array:
    for block in blocks:
        x = jax.nn.relu(group_norm(block["norm"], _convolve(x, block["kernel"]), groups))
    return x


def _level_shapes(into: int, width: int, layers: int) -> list[Any]:
    widths = [into, *[width] * layers]
    return [
        {"kernel": (3, 3, n, m), "norm": norm_shapes(m)} for n, m in zip(widths[:-1], widths[1:], strict=True)
    ]


def _convolve(x: jax.Array, kernel: jax.Array, stride: int = 1) -> jax.Array:
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=NHWC)
