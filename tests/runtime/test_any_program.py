"""What JAX programs hold, as on one device: control flow, effects, random keys, element types, odd shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback
from jax.sharding import PartitionSpec as P

import meshwright as mw

# On it, sending is cheap: whatever can be split is.
EAGER = str(Path(__file__).parent.parent / "numerics" / "eager.toml")


def _normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def _planned(fun: Callable[..., Any], **options: Any) -> Any:
    return mw.autoparallel(fun, **{"cluster": EAGER, "mesh": (2, 4), **options})


def _stacked_layers(weights: Any, x: Any) -> Any:
    def loss(weights: Any) -> Any:
        layer = jax.checkpoint(
            lambda h, w: (jnp.tanh(h @ w), None), policy=jax.checkpoint_policies.dots_saveable
        )
        return jnp.mean(lax.scan(layer, x, weights)[0] ** 2)

    return jax.value_and_grad(loss)(weights)


def _nested_scan(x: Any) -> Any:
    def outer(total: Any, row: Any) -> Any:
        inner, _ = lax.scan(lambda c, v: (c * 0.5 + v, None), total, jnp.stack([row, 2 * row]))
        return inner, inner

    return lax.scan(outer, jnp.zeros(x.shape[1]), x)


def _switch_in_loop(x: Any) -> Any:
    branches = [jnp.sin, jnp.cos, lambda a: a * 2]
    return lax.fori_loop(0, 6, lambda i, a: lax.switch(i % 3, branches, a), x)


def _custom_rules(x: Any) -> Any:
    @jax.custom_vjp
    def clipped(a: Any) -> Any:
        return a**2

    clipped.defvjp(lambda a: (a**2, a), lambda a, g: (jnp.clip(g * a, -0.1, 0.1),))

    @jax.custom_jvp
    def kinked(a: Any) -> Any:
        return jnp.abs(a)

    kinked.defjvp(lambda primals, tangents: (jnp.abs(primals[0]), tangents[0]))
    return jax.grad(lambda a: jnp.sum(clipped(a) + kinked(a)))(x)


def _forces(positions: Any) -> Any:
    def energy(positions: Any) -> Any:
        distances = jnp.sum((positions[:, None] - positions[None]) ** 2, -1) + jnp.eye(len(positions))
        return jnp.sum(jnp.exp(-distances))

    return jax.grad(lambda p: jnp.sum(jax.grad(energy)(p) ** 2))(positions)


def _typed_keys(key: Any, x: Any) -> Any:
    first, second = jax.random.split(key)
    kept = jax.random.bernoulli(first, 0.5, x.shape)
    return jnp.where(kept, x, 0), jax.random.normal(second, x.shape), jax.random.fold_in(key, 3)


def _raw_keys(key: Any, x: Any) -> Any:
    keys = jax.random.split(key, x.shape[0])
    return jax.vmap(lambda k, row: row + jax.random.uniform(k, row.shape))(keys, x), keys


def _narrow(x: Any) -> Any:
    small = x.astype(jnp.float8_e4m3fn).astype(jnp.bfloat16)
    return small @ small.T, (x > 0).astype(jnp.int8) @ jnp.ones((16, 8), jnp.int8)


def _complex(x: Any) -> Any:
    z = x + 1j * x[::-1]
    return jnp.abs(jnp.fft.fft(z) @ jnp.conj(z).T), jnp.angle(z)


def _odd_shapes(empty: Any, scalar: Any, x: Any) -> Any:
    return jnp.concatenate([empty, x]) * scalar, jnp.sum(empty), empty.T, x[:, :0], scalar


def _aliases(x: Any) -> Any:
    y = x * 2
    return y, y, x, {"again": y}


X = _normal(16, 16)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "scan over stacked layers, rematerialised": (_stacked_layers, (0.3 * _normal(4, 16, 16), X)),
    "nested scan": (_nested_scan, (X,)),
    "switch in a fori_loop": (_switch_in_loop, (X,)),
    "while_loop": (lambda x: lax.while_loop(lambda a: jnp.sum(a) < 100, lambda a: a * 1.5, jnp.abs(x)), (X,)),
    "associative_scan": (lambda x: lax.associative_scan(lambda a, b: a * 0.9 + b, x, axis=1), (X,)),
    "custom derivatives": (_custom_rules, (X,)),
    "grad of grad": (_forces, (_normal(16, 3),)),
    "typed keys": (_typed_keys, (jax.random.key(7), X)),
    "raw keys": (_raw_keys, (jax.random.PRNGKey(7), X)),
    "bfloat16, float8, int8": (_narrow, (X,)),
    "complex": (_complex, (X,)),
    "empty and scalar arrays": (_odd_shapes, (np.zeros((0, 16), np.float32), 3.0, X)),
    "one array returned twice": (_aliases, (X,)),
}


def _numbers(array: Any) -> np.ndarray:
    return np.asarray(array.astype(jnp.float32) if array.dtype == jnp.bfloat16 else array)


@pytest.mark.parametrize("name", PROGRAMS)
def test_equals_one_device(name: str) -> None:
    fun, arguments = PROGRAMS[name]
    found, expected = _planned(fun)(*arguments), jax.jit(fun)(*arguments)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert jax.typeof(a).str_short() == jax.typeof(b).str_short()
        if jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        # One device may keep more than bfloat16's bits between fused operations.
        tolerance = 1e-2 if a.dtype == jnp.bfloat16 else 2e-5
        np.testing.assert_allclose(_numbers(a), _numbers(b), rtol=tolerance, atol=tolerance)


def test_double_precision() -> None:
    with jax.enable_x64(True):
        x = np.random.default_rng(0).standard_normal((16, 16))
        found = _planned(lambda x: jnp.linalg.norm(x @ x.T))(x)
        assert found.dtype == jnp.float64
        np.testing.assert_allclose(found, np.linalg.norm(x @ x.T), rtol=1e-13)


def test_effects_happen_once_and_in_order() -> None:
    seen: list[float] = []

    def fun(x: Any) -> Any:
        for k in range(3):
            io_callback(lambda v: seen.append(float(v)), None, jnp.sum(x) + k, ordered=True)
        return x * 2

    planned = _planned(fun, pins={"x": P("data")})
    np.testing.assert_allclose(planned(np.ones((16, 4), np.float32)), 2)
    jax.effects_barrier()
    assert seen == [64.0, 65.0, 66.0]


def test_debug_print_shows_the_whole_array_once(capfd: pytest.CaptureFixture[str]) -> None:
    def fun(x: Any) -> Any:
        jax.debug.print("total {t} of {n}", t=jnp.sum(x), n=x.size)
        return x * 2

    _planned(fun, pins={"x": P("data")})(np.ones((16, 4), np.float32))
    jax.effects_barrier()
    assert capfd.readouterr().out.count("total 64.0 of 64") == 1


def test_pure_callback() -> None:
    def fun(x: Any) -> Any:
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jnp.tanh(jax.pure_callback(lambda a: np.asarray(a) ** 2, shape, x)).sum(1)

    planned = _planned(fun, pins={"x": P("data")})
    np.testing.assert_allclose(planned(X), np.tanh(X**2).sum(1), rtol=1e-5)


def test_derivatives_of_integers_are_float0() -> None:
    def fun(x: Any, n: Any) -> Any:
        return jax.grad(lambda x, n: jnp.sum(x) * 2.0 + n.sum() * 0, argnums=(0, 1), allow_int=True)(x, n)

    found = _planned(fun)(X, np.arange(16))
    np.testing.assert_allclose(found[0], 2.0)
    assert found[1].dtype == jax.dtypes.float0 and found[1].shape == (16,)
