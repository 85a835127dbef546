"""The decorator where ``nnx.jit`` and ``eqx.filter_jit`` would stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import meshwright as mw

X = np.random.default_rng(0).normal(size=(16, 12)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(16, 8)).astype(np.float32)


def _plan(fun: Callable[..., Any]) -> Any:
    return mw.autoparallel(fun, cluster="cpu:8", mesh=(8,), pins={"x": jax.sharding.PartitionSpec("data")})


class Block(nnx.Module):
    """A layer with parameters, batch statistics and dropout."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.dense = nnx.Linear(12, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.calls = nnx.Variable(jnp.zeros((), jnp.int32))

    def __call__(self, x: jax.Array) -> jax.Array:
        self.calls[...] += 1
        return self.dropout(self.norm(self.dense(x)))


def _nnx_step(model: Block, optimizer: nnx.Optimizer, x: jax.Array, y: jax.Array) -> jax.Array:
    def loss(model: Block) -> jax.Array:
        return jnp.mean((model(x) - y) ** 2)

    value, grads = nnx.value_and_grad(loss)(model)
    optimizer.update(model, grads)
    return value


def _nnx_run(decorate: Callable[..., Any]) -> tuple[list[float], Any]:
    model = Block(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param)
    step = decorate(_nnx_step)
    losses = [float(step(model, optimizer, X, Y)) for _ in range(4)]
    return losses, (nnx.state(model), nnx.state(optimizer))


def test_nnx_objects_are_mutated_in_place() -> None:
    losses, state = _nnx_run(_plan)
    expected, expected_state = _nnx_run(nnx.jit)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert losses[-1] != losses[0]
    found, wanted = jax.tree.leaves(state), jax.tree.leaves(expected_state)
    assert len(found) == len(wanted) > 8
    for a, b in zip(found, wanted, strict=True):
        if not jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_nnx_plans_name_the_module() -> None:
    model = Block(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
    paths = mw.plan(_nnx_step, model, optimizer, X, Y, cluster="cpu:8", mesh=(8,)).shardings
    assert any(path.startswith("model/dense/kernel") for path in paths)


def test_an_eqx_module_with_static_leaves() -> None:
    model = eqx.nn.MLP(12, 8, 16, 2, activation=jax.nn.gelu, key=jax.random.key(0))
    optimizer = optax.adam(1e-2, eps=1e-3)

    def step(model: Any, moments: Any, x: jax.Array, y: jax.Array) -> Any:
        @eqx.filter_value_and_grad
        def loss(model: Any) -> jax.Array:
            return jnp.mean((jax.vmap(model)(x) - y) ** 2)

        value, grads = loss(model)
        updates, moments = optimizer.update(grads, moments, model)
        return eqx.apply_updates(model, updates), moments, value

    def run(decorate: Callable[..., Any]) -> tuple[list[float], Any]:
        decorated, trained = decorate(step), model
        moments = optimizer.init(eqx.filter(model, eqx.is_array))
        losses = []
        for _ in range(4):
            trained, moments, value = decorated(trained, moments, X, Y)
            losses.append(float(value))
        return losses, trained

    losses, trained = run(_plan)
    expected, reference = run(eqx.filter_jit)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert trained.activation is model.activation
    for a, b in zip(
        *(jax.tree.leaves(eqx.filter(m, eqx.is_array)) for m in (trained, reference)), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_what_is_static_under_filter_jit_is_static_here() -> None:
    traces: list[Any] = []

    class Scale(eqx.Module):
        factor: jax.Array

    def call(scale: Scale, x: jax.Array, power: int) -> jax.Array:
        traces.append(power)
        return scale.factor * (x**power if power > 1 else x)

    planned, model = mw.autoparallel(call, cluster="cpu:8", mesh=(8,)), Scale(jnp.float32(2))
    for power in (1, 3, 1, 3):
        np.testing.assert_allclose(planned(model, X, power), 2 * X**power, rtol=1e-5)
    assert traces == [1, 3]


def test_plain_arguments_have_no_convention() -> None:
    planned = mw.autoparallel(lambda x, y: x + y, cluster="cpu:8", mesh=(8,))
    with pytest.raises(mw.ArgumentError, match="of type str"):
        planned(jnp.ones(8), "text")
