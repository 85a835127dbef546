"""What a plan and an error say is alive at the peak."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import meshwright as mw

ROWS, WIDTH, LAYERS = 64, 128, 6


def loss(weights: list[Any], x: Any) -> Any:
    for w in weights:
        x = jnp.tanh(x @ w)
    return (x * x).sum()


def arguments() -> tuple[list[Any], Any]:
    weights = [jax.ShapeDtypeStruct((WIDTH, WIDTH), "float32") for _ in range(LAYERS)]
    return weights, jax.ShapeDtypeStruct((ROWS, WIDTH), "float32")


def test_the_values_alive_add_up_to_the_peak() -> None:
    memory = mw.plan(jax.grad(loss), *arguments(), cluster="cpu:2").memory
    assert sum(t.count * t.bytes for t in memory.largest) == memory.peak_bytes
    assert sum(t.count for t in memory.largest) == memory.num_live
    totals = [t.count * t.bytes for t in memory.largest]
    assert totals == sorted(totals, reverse=True)
    assert len({(t.name, t.bytes) for t in memory.largest}) == len(memory.largest)
    assert any(t.count > 1 for t in memory.largest)


def test_a_list_that_is_cut_still_counts_all() -> None:
    def many(xs: list[Any]) -> Any:
        return [x * 2.0 for x in xs]

    sizes = [jax.ShapeDtypeStruct((8 + i,), "float32") for i in range(100)]
    memory = mw.plan(many, sizes, cluster="cpu:2").memory
    assert len(memory.largest) == 64
    assert memory.num_live > 100
    assert sum(t.count * t.bytes for t in memory.largest) < memory.peak_bytes


def test_an_error_names_equal_values_once() -> None:
    with pytest.raises(mw.InfeasibleError) as raised:
        mw.plan(jax.grad(loss), *arguments(), cluster="cpu:2", budget_bytes=1024)
    top = raised.value.top_tensors
    assert len({name for name, _ in top}) == len(top) <= 10
    assert any(" x " in name for name, _ in top)
    assert sum(size for _, size in top) <= raised.value.least_budget_bytes
