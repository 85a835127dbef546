"""recurrentgemma: Griffin, with its recurrence as a loop and as an associative scan."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.zoo.harness import Training, model
from tests.zoo.training import cross_entropy, integers, train

BATCH, LENGTH, WORDS = 8, 8, 32


def _griffin(scan: str, checkpointing: bool) -> Training:
    common = pytest.importorskip("recurrentgemma.common")
    griffin = pytest.importorskip("recurrentgemma.jax.griffin")
    kinds = common.TemporalBlockType
    config = common.GriffinConfig(
        vocab_size=WORDS,
        width=16,
        mlp_expanded_width=32,
        num_heads=2,
        lru_width=16,
        block_types=(kinds.RECURRENT, kinds.ATTENTION),
        embeddings_scale_by_sqrt_dim=True,
        attention_window_size=4,
        logits_soft_cap=30.0,
        scan_type=common.ScanType[scan],
    )
    net = griffin.Griffin(config, gradient_checkpointing=checkpointing)
    tokens = integers(0, WORDS, BATCH, LENGTH + 1)
    places = jnp.broadcast_to(jnp.arange(LENGTH), (BATCH, LENGTH))

    def loss(params: Any, tokens: jax.Array, places: jax.Array) -> jax.Array:
        logits, _ = net.apply(params, tokens[:, :-1], places, return_cache=False)
        return cross_entropy(logits, tokens[:, 1:])

    return train(loss, net.init(jax.random.key(0), tokens[:, :-1], places), (tokens, places))


@model(
    "recurrentgemma",
    "Griffin, recurrence by lax.scan, remat",
    own=True,
    kind="state space or linear recurrence",
)
def test_griffin_loop() -> Training:
    return _griffin("LINEAR_NATIVE", checkpointing=True)


@model(
    "recurrentgemma",
    "Griffin, recurrence by associative scan",
    own=True,
    kind="state space or linear recurrence",
)
def test_griffin_associative() -> Training:
    return _griffin("ASSOCIATIVE_NATIVE", checkpointing=False)
