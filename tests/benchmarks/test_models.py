"""The benchmarks' models are training steps that run, and their shapes are what they say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.decoder import DecoderSize, decoder_logits, decoder_loss, init_decoder
from benchmarks.models import MODELS, make_workload


@pytest.mark.parametrize("model", MODELS)
def test_a_step_keeps_the_state_and_gives_a_loss(model: str) -> None:
    workload = make_workload(model, 2, quick=True)
    state, loss = jax.eval_shape(workload.step, *workload.args)
    before, after = (jax.tree.map(lambda x: (x.shape, x.dtype), t) for t in (workload.args[0], state))
    assert before == after
    assert loss.shape == ()


def test_the_default_decoder_has_the_size_of_gpt2_medium() -> None:
    params = make_workload("decoder", 24).args[0][0]
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    # GPT-2 medium has 355 million parameters with a vocabulary of 50,257; this one's is 32,768.
    assert 355e6 - 18e6 - count == pytest.approx(0, abs=2e6)


def test_the_scanned_decoder_computes_the_unrolled_one() -> None:
    sizes = [DecoderSize(2, 32, 4, 64, 16, 2, scanned) for scanned in (False, True)]
    tokens = jnp.arange(2 * 17).reshape(2, 17) % 64
    losses = [decoder_loss(init_decoder(jax.random.key(0), s), tokens, s) for s in sizes]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)
    assert float(losses[0]) == pytest.approx(np.log(64), rel=0.05)


def test_the_decoder_does_not_look_ahead() -> None:
    size = DecoderSize(1, 32, 4, 64, 8, 1)
    params = init_decoder(jax.random.key(0), size)
    tokens = jnp.arange(8)[None]
    one, other = (decoder_logits(params, t, size) for t in (tokens, tokens.at[0, 5:].set(63)))
    np.testing.assert_allclose(one[:, :5], other[:, :5], rtol=1e-5)
    assert np.abs(one[:, 5:] - other[:, 5:]).max(-1).min() > 0
