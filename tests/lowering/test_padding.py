"""Dims that no mesh divides: split unevenly inside the program, the same numbers as one device."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshwright as mw
from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.ir import Program
from meshwright.compiler.plan import Plan

# On it, sending is cheap: whatever can be split is.
EAGER = Path(__file__).parent.parent / "numerics" / "eager.toml"
ROWS, CLASSES = 30, 50


def _rows(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def _loss(params: Any, x: Any, labels: Any) -> Any:
    hidden = jax.nn.gelu(x @ params["in"])
    normed = (hidden - hidden.mean(-1, keepdims=True)) * jax.lax.rsqrt(hidden.var(-1, keepdims=True) + 1e-5)
    logits = normed @ params["out"]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


def _classifier(params: Any, x: Any, labels: Any) -> Any:
    loss, gradients = jax.value_and_grad(_loss)(params, x, labels)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), loss


def _attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, scores, -1e9)), v).sum(0)


def _layers(weights: Any, x: Any) -> Any:
    def layer(x: Any, w: Any) -> Any:
        y = jnp.tanh(x @ w)
        return y, y.max()

    last, peaks = jax.lax.scan(layer, x, weights)
    return jax.lax.cond(last.sum() > 0, lambda a: a.sum(0), lambda a: -a.sum(0), last), peaks


def _reductions(x: Any) -> Any:
    y = jnp.exp(x) @ jnp.exp(x).T
    moved = y[::-1].T.sum(1), jnp.concatenate([y, 2 * y]).mean()
    return y.min(), y.max(0), y.prod(1) * 0, (y > 1).all(), *moved


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "classifier": (
        _classifier,
        lambda: (
            {"in": _rows(20, 70), "out": _rows(70, CLASSES, seed=1)},
            _rows(ROWS, 20, seed=2),
            np.arange(ROWS, dtype=np.int32) % CLASSES,
        ),
    ),
    "attention": (_attention, lambda: tuple(_rows(ROWS, 11, 3, 10, seed=i) for i in range(3))),
    "layers": (_layers, lambda: (0.3 * _rows(4, 22, 22), _rows(ROWS, 22))),
    "reductions": (_reductions, lambda: (_rows(ROWS, 60),)),
}


def _padded(plan: Plan, program: Program) -> int:
    """How many values are split over axes that do not divide their dims."""
    sizes = dict(zip(plan.mesh.axis_names, plan.mesh.shape, strict=True))
    count = 0
    for node in program.graph.nodes:
        for value in node.results:
            index = plan.values[value.index]
            if index >= 0:
                spec = plan.layouts[index].spec
                parts = [math.prod(sizes[a] for a in dim) for dim in spec]
                count += any(size % n for size, n in zip(value.type.shape, parts, strict=True))
    return count


@functools.cache
def _planned(name: str, mesh: tuple[int, ...]) -> tuple[Any, tuple[Any, ...]]:
    fun, arguments = PROGRAMS[name]
    return mw.autoparallel(fun, cluster=str(EAGER), mesh=mesh), arguments()


@pytest.mark.parametrize("mesh", [(8,), (2, 4), (4, 2)], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_equals_one_device(name: str, mesh: tuple[int, ...]) -> None:
    planned, arguments = _planned(name, mesh)
    program = trace_program(PROGRAMS[name][0], TraceOptions(), arguments, {})
    assert _padded(planned.plan(*arguments), program)
    expected = jax.jit(PROGRAMS[name][0])(*arguments)
    compare = functools.partial(np.testing.assert_allclose, rtol=2e-5, atol=1e-5)
    jax.tree.map(compare, planned(*arguments), expected)


def test_each_device_computes_its_part_alone() -> None:
    planned = mw.autoparallel(lambda x: jnp.tanh(x).sum(1), cluster=str(EAGER), mesh=(8,))
    text = planned.lower(_rows(ROWS, 3)).compile().as_text() or ""
    assert re.search(r"f32\[4,3\]\S* tanh", text), text
    assert not re.search(r"f32\[30,3\]\S* tanh", text), text
