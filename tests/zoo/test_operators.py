"""pdequinox: networks that step partial differential equations, in equinox."""

from __future__ import annotations

from typing import Any

import jax
import pytest

from tests.zoo.harness import Training, model
from tests.zoo.training import mean_square, normal, train_equinox

BATCH, SIZE = 8, 16


def _stepper(name: str, **options: Any) -> Training:
    """``pdequinox.arch.<name>`` from one field of two dims to the next."""
    arch = pytest.importorskip("pdequinox.arch")
    net = getattr(arch, name)(2, 1, 1, key=jax.random.key(0), **options)
    before, after = normal(0, BATCH, 1, SIZE, SIZE), normal(1, BATCH, 1, SIZE, SIZE)
    return train_equinox(net, lambda net, x, y: mean_square(jax.vmap(net)(x), y), (before, after))


@model("pdequinox", "Fourier neural operator", own=True, kind="neural operator")
def test_fourier_operator() -> Training:
    return _stepper("ClassicFNO", hidden_channels=8, num_modes=4, num_blocks=2)


@model("pdequinox", "U-Net, periodic convolutions", own=True, kind="U-Net")
def test_unet() -> Training:
    return _stepper("ClassicUNet", hidden_channels=8, num_levels=2)


@model("pdequinox", "dilated residual network", own=True)
def test_dilated() -> Training:
    return _stepper("DilatedResNet", hidden_channels=8, num_blocks=1)
