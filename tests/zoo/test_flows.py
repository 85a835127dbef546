"""Normalizing flows: flowjax and transformer-flows, both in equinox."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from tests.zoo.harness import Training, model
from tests.zoo.training import normal, train_equinox

KEY = jax.random.key(0)


@model("flowjax", "masked autoregressive flow, rational quadratic splines", own=True, kind="normalizing flow")
def test_autoregressive_flow() -> Training:
    bijections = pytest.importorskip("flowjax.bijections")
    distributions = pytest.importorskip("flowjax.distributions")
    flows = pytest.importorskip("flowjax.flows")
    paramax = pytest.importorskip("paramax")
    flow = flows.masked_autoregressive_flow(
        KEY,
        base_dist=distributions.Normal(jnp.zeros(8)),
        transformer=bijections.RationalQuadraticSpline(knots=4, interval=3),
        flow_layers=2,
        nn_width=16,
    )
    x = normal(0, 16, 8)
    return train_equinox(flow, lambda flow, x: -paramax.unwrap(flow).log_prob(x).mean(), (x,))


@model(
    "transformer-flows",
    "TarFlow: causal transformer flow, blocks and layers by lax.scan",
    own=True,
    kind="transformer decoder, scanned layers",
)
def test_tarflow() -> Training:
    flows = pytest.importorskip("transformer_flows")
    net = flows.TransformerFlow(
        n_channels=3,
        img_size=8,
        patch_size=4,
        channels=16,
        n_blocks=2,
        layers_per_block=2,
        head_dim=8,
        expansion=2,
        key=KEY,
    )
    images = normal(0, 8, 3, 8, 8)
    return train_equinox(net, lambda net, x: flows.batch_loss_fn(net, KEY, x)[0], (images,))
