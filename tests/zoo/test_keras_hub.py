"""keras-hub: published language and vision models on keras' JAX backend, as built without weights."""

from __future__ import annotations

from typing import Any

import pytest

from tests.zoo.harness import Training, model
from tests.zoo.keras_training import keras_module, train_keras
from tests.zoo.training import cross_entropy, integers, normal

BATCH, LENGTH, WORDS, CLASSES = 8, 8, 32, 8


def _hub() -> Any:
    """The package; its models are built without the tokenizers, which alone need tensorflow-text."""
    keras_module()
    return pytest.importorskip("keras_hub").models


def _tokens(seed: int, length: int = LENGTH) -> Any:
    return integers(seed, WORDS, BATCH, length)


def _ones() -> Any:
    return integers(0, 1, BATCH, LENGTH) + 1


def _language(name: str, **options: Any) -> Training:
    """A decoder-only backbone, trained to tell the next word by its own embedding."""
    hub = _hub()
    tokens = _tokens(0, LENGTH + 1)
    inputs = {"token_ids": tokens[:, :-1], "padding_mask": _ones()}

    def build() -> Any:
        keras = keras_module()
        backbone = getattr(hub, name)(vocabulary_size=WORDS, **options)
        logits = backbone.token_embedding(backbone.output, reverse=True)
        return keras.Model(backbone.input, logits)

    return train_keras(build, cross_entropy, (inputs, tokens[:, 1:]))


@model("keras-hub", "T5 (T5Backbone)", own=True, kind="encoder-decoder, tied embeddings, relative bias")
def test_t5() -> Training:
    hub, target = _hub(), _tokens(1, LENGTH + 1)
    inputs = {
        "encoder_token_ids": _tokens(0),
        "encoder_padding_mask": _ones(),
        "decoder_token_ids": target[:, :-1],
        "decoder_padding_mask": _ones(),
    }

    def build() -> Any:
        backbone = hub.T5Backbone(WORDS, num_layers=2, num_heads=2, hidden_dim=16, intermediate_dim=32)
        words = backbone.output["decoder_sequence_output"]
        return keras_module().Model(backbone.input, backbone.token_embedding(words, reverse=True))

    return train_keras(build, cross_entropy, (inputs, target[:, 1:]))


@model("keras-hub", "Mixtral: top-2 of 4 experts, grouped queries", own=True, kind="mixture of experts")
def test_mixtral() -> Training:
    heads = {"num_query_heads": 4, "num_key_value_heads": 2}
    sizes = {"num_layers": 1, "hidden_dim": 16, "intermediate_dim": 32, "num_experts": 4}
    return _language("MixtralBackbone", **heads, **sizes)


@model("keras-hub", "GPT-2, dropout", own=True)
def test_gpt2() -> Training:
    sizes = {"num_layers": 2, "num_heads": 4, "hidden_dim": 16, "intermediate_dim": 32}
    return _language("GPT2Backbone", **sizes, max_sequence_length=LENGTH)


@model("keras-hub", "Llama 3: rotary embedding, grouped queries", own=True)
def test_llama() -> Training:
    heads = {"num_query_heads": 4, "num_key_value_heads": 2}
    sizes = {"num_layers": 2, "hidden_dim": 16, "intermediate_dim": 32}
    return _language("Llama3Backbone", **heads, **sizes, tie_word_embeddings=True)


@model("keras-hub", "RWKV-7: linear recurrence", own=True, kind="state space or linear recurrence")
def test_rwkv7() -> Training:
    loras = {"gate_lora": 4, "mv_lora": 4, "aaa_lora": 4, "decay_lora": 4}
    hub, tokens = _hub(), integers(0, WORDS, BATCH, 17)
    inputs = {"token_ids": tokens[:, :-1], "padding_mask": integers(0, 1, BATCH, 16) + 1}

    def build() -> Any:
        backbone = hub.RWKV7Backbone(16, 8, 2, WORDS, 32, **loras)
        return keras_module().Model(backbone.input, backbone.output)

    return train_keras(build, cross_entropy, (inputs, tokens[:, 1:]))


@model("keras-hub", "FNet: Fourier transforms for attention", own=True)
def test_fnet() -> Training:
    hub = _hub()
    inputs = {"token_ids": _tokens(0), "segment_ids": integers(1, 2, BATCH, LENGTH)}

    def build() -> Any:
        sizes = {"num_layers": 2, "hidden_dim": 16, "intermediate_dim": 32, "max_sequence_length": LENGTH}
        backbone = hub.FNetBackbone(WORDS, num_segments=2, **sizes)
        words = backbone.output["sequence_output"]
        return keras_module().Model(backbone.input, backbone.token_embedding(words, reverse=True))

    return train_keras(build, cross_entropy, (inputs, _tokens(2)))


@model("keras-hub", "Swin Transformer: shifted windows", own=True, kind="vision transformer")
def test_swin() -> Training:
    hub = _hub()

    def build() -> Any:
        keras = keras_module()
        sizes = {"embed_dim": 8, "depths": (2, 2), "num_heads": (2, 2), "window_size": 2}
        backbone = hub.SwinTransformerBackbone((32, 32, 3), **sizes)
        pooled = keras.layers.GlobalAveragePooling1D()(backbone.output)
        return keras.Model(backbone.input, keras.layers.Dense(CLASSES)(pooled))

    return train_keras(build, cross_entropy, (normal(0, BATCH, 32, 32, 3), integers(1, CLASSES, BATCH)))


@model("keras-hub", "Whisper: audio encoder, text decoder", own=True)
def test_whisper() -> Training:
    hub, target = _hub(), _tokens(1, LENGTH + 1)
    inputs = {
        "encoder_features": normal(0, BATCH, 16, 8),
        "decoder_token_ids": target[:, :-1],
        "decoder_padding_mask": _ones(),
    }

    def build() -> Any:
        sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": 16, "intermediate_dim": 32, "num_mels": 8}
        lengths = {"max_encoder_sequence_length": 16, "max_decoder_sequence_length": LENGTH}
        backbone = hub.WhisperBackbone(WORDS, **sizes, **lengths)
        words = backbone.output["decoder_sequence_output"]
        logits = backbone.token_embedding(words, reverse=True)
        return keras_module().Model(backbone.input, logits)

    return train_keras(build, cross_entropy, (inputs, target[:, 1:]))
