"""Which written values XLA makes again where they are read; each case as XLA 0.10.2 compiles it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from meshwright.compiler.analysis.fusion import fused_operations
from meshwright.compiler.analysis.recomputation import recomputed_values
from tests.frontend.programs import f32, traced

SQUARE = (64, 64)


def made_again(fun: Any, *args: Any, kind: str = "gpu") -> set[tuple[str, str]]:
    """Operations whose written results are made again, each with those they are made from."""
    graph = traced(fun, *args).graph
    maker = {result: node.op for node in graph.nodes for result in node.results}
    found = recomputed_values(graph, fused_operations(graph), kind)
    return {
        (maker[v], " ".join(sorted({maker.get(s, "input") for s in made_from})))
        for v, made_from in found.items()
    }


def attention(x: jax.Array, w: jax.Array) -> jax.Array:
    """Softmax of a product, read by another and, far from it, by its own derivative."""
    scores = (x.astype(jnp.bfloat16) @ w.astype(jnp.bfloat16)).astype(jnp.float32) * 0.5
    shifted = jnp.exp(scores - jax.lax.stop_gradient(scores.max(-1, keepdims=True)))
    weights = (shifted / shifted.sum(-1, keepdims=True)).astype(jnp.bfloat16)
    mixed = (weights @ weights).astype(jnp.float32)
    for _ in range(50):
        mixed = jnp.sin(mixed)
    return mixed * shifted


def test_a_gpu_makes_exp_again_and_keeps_what_a_product_reads() -> None:
    found = made_again(attention, f32(*SQUARE), f32(*SQUARE), kind="gpu")
    assert ("exp", "dot_general reduce_max") in found
    assert ("convert_element_type", "dot_general reduce_max reduce_sum") not in found


def test_a_tpu_keeps_exp_and_makes_what_a_product_reads_from_it() -> None:
    found = made_again(attention, f32(*SQUARE), f32(*SQUARE), kind="tpu")
    assert "exp" not in {op for op, _ in found}
    assert ("convert_element_type", "exp reduce_sum") in found


def far(x: jax.Array, count: int = 50) -> jax.Array:
    for _ in range(count):
        x = jnp.sin(x)
    return x


@pytest.mark.parametrize("kind", ["gpu", "tpu"])
def test_the_sum_of_two_products_is_kept(kind: str) -> None:
    def fun(x: Any, w: Any, v: Any) -> Any:
        both = x @ w + x @ v
        return far(both) + both

    assert not made_again(fun, *[f32(*SQUARE)] * 3, kind=kind)


def test_one_array_of_the_same_size_is_not_kept_in_place_of_another() -> None:
    def fun(x: Any, w: Any) -> Any:
        turned = jnp.transpose(x @ w)
        return far(jnp.cos(turned)) + turned

    assert not made_again(fun, f32(*SQUARE), f32(*SQUARE))


def test_two_forms_of_one_product_are_made_from_it() -> None:
    def fun(x: Any, w: Any) -> Any:
        product = x @ w
        double, shifted = product * 2.0, product + 1.0
        return far(double * shifted) * double * shifted

    assert made_again(fun, f32(*SQUARE), f32(*SQUARE)) == {("mul", "dot_general"), ("add", "dot_general")}


def test_results_and_scalars_are_kept() -> None:
    def fun(x: Any) -> Any:
        half = x * 0.5
        return half, far(half) + half, far(x.sum() * 2.0)

    assert made_again(fun, f32(*SQUARE)) == set()
