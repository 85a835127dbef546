"""JAX's own settings and contexts: a change of one holds for a planned function as for a jitted one."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import meshwright as mw


def _planned(fun: Any, **options: Any) -> Any:
    return mw.autoparallel(fun, **{"cluster": "cpu:8", "mesh": (8,), **options})


def _product(a: Any, b: Any) -> Any:
    return a @ b


def _pair(size: int = 16) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(0).standard_normal((2, size, size))
    return numbers[0].astype(np.float32), numbers[1].astype(np.float32)


def test_x64_after_a_first_call() -> None:
    planned = _planned(lambda x: jnp.linspace(0, 1, 8) + x)
    assert planned(3).dtype == jnp.float32
    with jax.enable_x64(True):
        assert planned(3).dtype == jnp.float64
    assert planned(3).dtype == jnp.float32


def test_matmul_precision_after_a_first_call() -> None:
    planned = _planned(_product)
    planned(*_pair())
    with jax.default_matmul_precision("float32"):
        planned(*_pair())
        assert "HIGHEST" in planned.lower(*_pair()).as_text()
    assert "HIGHEST" not in planned.lower(*_pair()).as_text()


def test_the_same_program_under_another_setting_is_not_planned_again() -> None:
    planned = _planned(_product)
    plan = planned.plan(*_pair())
    with jax.default_device(jax.devices()[1]):
        assert planned.plan(*_pair()) is plan


def test_without_jit_the_function_runs_as_it_stands() -> None:
    seen = []

    def shows(x: Any) -> Any:
        seen.append(x)
        return x + 1

    planned = _planned(shows)
    planned(jnp.ones(8))
    with jax.disable_jit():
        assert planned(jnp.ones(8))[0] == 2
    assert not isinstance(seen[-1], jax.core.Tracer)


@pytest.mark.parametrize("known", [False, True])
def test_debug_nans_names_the_operation(known: bool) -> None:
    planned = _planned(lambda x: jnp.log(-x).sum())
    if known:
        planned(jnp.ones(8))
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="log"):
        planned(jnp.ones(8))


def test_debug_nans_with_nothing_left_to_run_on() -> None:
    planned = _planned(lambda x: jnp.log(-x), donate_argnums=0)
    planned(jnp.ones(8))
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="donat"):
        planned(jnp.ones(8))


def test_inside_a_context_mesh() -> None:
    mesh = jax.make_mesh((8,), ("rows",), axis_types=(AxisType.Auto,))
    a, b = _pair()
    # The FFT is made on parts, under a mesh of its own.
    planned = _planned(lambda a, b: jnp.abs(jnp.fft.fft(a @ b)).sum(), pins={"a": P("data")})
    expected = planned(a, b)
    split = jax.device_put(a, NamedSharding(mesh, P("rows")))
    np.testing.assert_allclose(planned(split, b), expected, rtol=1e-5)
    with jax.set_mesh(mesh):
        np.testing.assert_allclose(planned(a, b), expected, rtol=1e-5)
        np.testing.assert_allclose(planned(split, b), expected, rtol=1e-5)


def test_inside_an_explicit_mesh_planning_alone_is_possible() -> None:
    mesh = jax.make_mesh((8,), ("rows",), axis_types=(AxisType.Explicit,))
    a, b = _pair()
    planned = _planned(lambda a, b: jnp.tanh(a @ b).sum(), pins={"a": P("data")})
    split = jax.device_put(a, NamedSharding(mesh, P("rows")))
    with jax.set_mesh(mesh):
        assert planned.plan(a, b).shardings["a"][0] == ("data",)
        for call in (lambda: planned(split, b), lambda: jax.grad(planned)(a, b)):
            with pytest.raises(mw.UnsupportedError, match="Explicit axes.*Auto"):
                call()
    np.testing.assert_allclose(planned(split, b), jnp.tanh(a @ b).sum(), rtol=1e-5)
