"""Resharded copies: shared by near reads, gathered anew for far ones, as the memory model counts them."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import meshwright as mw

LAYERS, WIDTH, ROWS = 6, 64, 512


def _step(weights: Any, x: Any) -> Any:
    def loss(weights: Any) -> Any:
        hidden = x
        for w in weights:
            hidden = jnp.tanh(hidden @ w)
        return jnp.mean(hidden**2)

    value, gradients = jax.value_and_grad(loss)(weights)
    return [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)], value


def _arguments() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((WIDTH, WIDTH), np.float32) * 0.1 for _ in range(LAYERS)]
    return weights, rng.standard_normal((ROWS, WIDTH), np.float32)


def _gathers(compiled_text: str) -> int:
    return len(re.findall(r" all-gather(?:-start)?\(", compiled_text))


def test_weights_are_gathered_for_the_backward_pass_again() -> None:
    planned = mw.autoparallel(
        _step, cluster="cpu:8", mesh=(8,), pins={"weights/*": P("data"), "x": P("data")}
    )
    plan = planned.plan(*_arguments())
    expected = sum(use.count for use in plan.collectives if use.kind == "all-gather")
    assert expected > LAYERS
    assert _gathers(planned.lower(*_arguments()).compile().as_text() or "") == expected
    found, wanted = planned(*_arguments()), jax.jit(_step)(*_arguments())
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), found, wanted)


@pytest.mark.parametrize(("apart", "gathers"), [(2, 1), (40, 2)])
def test_near_reads_share_a_copy(apart: int, gathers: int) -> None:
    def fun(w: Any, x: Any) -> Any:
        y = x @ w
        for _ in range(apart):
            y = jnp.sort(jnp.tanh(y), axis=1)
        return y @ w

    pins = {"w": P("data"), "x": P("data")}
    planned = mw.autoparallel(fun, cluster="cpu:8", mesh=(8,), pins=pins)
    w, x = np.ones((WIDTH, WIDTH), np.float32), np.ones((4096, WIDTH), np.float32)
    assert _gathers(planned.lower(w, x).compile().as_text() or "") == gathers
