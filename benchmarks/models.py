"""Training steps to plan, by name, each with the shapes of its arguments; no array is made to plan one.

Every step is ordinary single-device JAX with ``optax.adamw``: ``step(state, batch) -> (state, loss)`` where
the state is ``(params, opt_state)``.
"""

from __future__ import annotations

from collections.abc import Callable

import jax

from .decoder import DecoderSize, decoder_loss, init_decoder
from .workloads.convolutions import cnn, unet
from .workloads.encoder_decoder import encoder_decoder
from .workloads.experts import moe
from .workloads.graphs import gnn
from .workloads.perceptron import mlp, wide_mlp
from .workloads.recommender import dlrm
from .workloads.sequences import rnn, ssm
from .workloads.training import Workload, training
from .workloads.vision import diffusion, vit

__all__ = ["MODELS", "Workload", "make_workload"]


def make_workload(model: str, layers: int, quick: bool = False) -> Workload:
    """A training step by name.

    Args:
        model: one of ``MODELS``.
        layers: how deep.
        quick: tiny sizes, for a test that the benchmark runs.
    """
    return MODELS[model](layers, quick)


def decoder(layers: int, quick: bool, scanned: bool = False, length: int = 1024) -> Workload:
    """The widths of GPT-2 medium with a vocabulary that divides, 64 sequences.

    Args:
        layers: blocks.
        quick: tiny widths.
        scanned: one ``lax.scan`` over the layers.
        length: tokens in a sequence.
    """
    size = DecoderSize(layers, length=length, scanned=scanned)
    if quick:
        size = DecoderSize(layers, 64, 8, 128, length // 32, 16, scanned)
    return training(
        lambda params, batch: decoder_loss(params, batch, size),
        lambda key: init_decoder(key, size),
        lambda key: jax.random.randint(key, (size.batch, size.length + 1), 0, size.vocabulary),
    )


def scanned_decoder(layers: int, quick: bool) -> Workload:
    """The decoder as one ``lax.scan`` over its layers."""
    return decoder(layers, quick, scanned=True)


def short_decoder(layers: int, quick: bool) -> Workload:
    """The decoder on sequences of 128 tokens: weights and gradients are most of the memory."""
    return decoder(layers, quick, length=128)


MODELS: dict[str, Callable[[int, bool], Workload]] = {
    "decoder": decoder,
    "decoder-scan": scanned_decoder,
    "decoder-short": short_decoder,
    "mlp": mlp,
    "wide_mlp": wide_mlp,
    "moe": moe,
    "cnn": cnn,
    "unet": unet,
    "vit": vit,
    "diffusion": diffusion,
    "dlrm": dlrm,
    "rnn": rnn,
    "ssm": ssm,
    "encoder_decoder": encoder_decoder,
    "gnn": gnn,
}
