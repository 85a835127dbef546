"""Language models of small packages: ESM-2 (equinox), Mamba-2 (nnx), NanoMoE (linen)."""

from __future__ import annotations

from typing import Any

import jax
import pytest

from tests.zoo.harness import Training, model
from tests.zoo.training import cross_entropy, integers, train_equinox, train_nnx, train_with

BATCH, LENGTH, WORDS = 8, 8, 32
KEY = jax.random.key(0)


@model("esm2quinox", "ESM-2: protein encoder, layers by lax.scan, tied embedding", own=True)
def test_esm2() -> Training:
    esm2quinox = pytest.importorskip("esm2quinox")
    net = esm2quinox.ESM2(num_layers=3, embed_size=16, num_heads=4, token_dropout=True, key=KEY)
    residues, labels = integers(0, 20, BATCH, LENGTH) + 4, integers(1, 20, BATCH, LENGTH) + 4
    return train_equinox(net, lambda net, x, y: cross_entropy(jax.vmap(net)(x).logits, y), (residues, labels))


@model(
    "mamba2-jax", "Mamba-2: chunked state space duality", own=True, kind="state space or linear recurrence"
)
def test_mamba2() -> Training:
    mamba2 = pytest.importorskip("mamba2_jax")
    from flax import nnx

    sizes = {"hidden_size": 16, "state_size": 8, "head_dim": 8, "chunk_size": 4, "num_hidden_layers": 2}
    net = mamba2.Mamba2ForCausalLM(mamba2.Mamba2Config(vocab_size=WORDS, **sizes), rngs=nnx.Rngs(0))
    tokens = integers(0, WORDS, BATCH, 2 * LENGTH)
    return train_nnx(net, lambda net, tokens: net(tokens, labels=tokens)["loss"], (tokens,))


@model("nano-moe-jax", "NanoMoE: top-2 experts, balance loss, dropout", own=True, kind="mixture of experts")
def test_nano_moe() -> Training:
    config = pytest.importorskip("nano_moe.config")
    nano_moe = pytest.importorskip("nano_moe.model")
    sizes = {"n_layers": 2, "n_heads": 4, "d_model": 16, "d_ff": 32, "block_size": LENGTH}
    net = nano_moe.NanoMoE(config.NanoMoEConfig(vocab_size=WORDS, **sizes))
    tokens, labels = integers(0, WORDS, BATCH, LENGTH), integers(1, WORDS, BATCH, LENGTH)

    def loss(params: Any, key: jax.Array, tokens: jax.Array, labels: jax.Array) -> Any:
        key, dropout = jax.random.split(key)
        logits, balance = net.apply(params, tokens, deterministic=False, rngs={"dropout": dropout})
        return cross_entropy(logits, labels) + 0.01 * balance, key

    return train_with(loss, net.init(KEY, tokens), jax.random.key(1), (tokens, labels))
