"""Functions that JAX cannot trace: the error names the function, keeps JAX's reason and its exception."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from meshwright.compiler.errors import MeshwrightError, TraceError
from tests.frontend.programs import f32, traced


def branches_on_values(x: Any) -> Any:
    return x if x.sum() > 0 else -x


def needs_a_number(x: Any) -> Any:
    return jnp.zeros(int(x.sum()))


def shapes_do_not_fit(x: Any) -> Any:
    return x @ jnp.ones((7, 2))


def result_is_no_array(x: Any) -> Any:
    return {"name": "adam", "x": x}


@pytest.mark.parametrize(
    "fun",
    [branches_on_values, needs_a_number, shapes_do_not_fit, result_is_no_array],
    ids=lambda f: f.__name__,
)
def test_the_error_names_the_function_and_chains_jaxs(fun: Any) -> None:
    with pytest.raises(TraceError, match=fun.__name__) as caught:
        traced(fun, f32(4, 4))
    assert isinstance(caught.value, MeshwrightError)
    assert caught.value.__cause__ is not None
    assert str(caught.value.__cause__).splitlines()[0] in str(caught.value)


def test_errors_of_the_users_own_pass_through() -> None:
    class Broken(Exception):
        pass

    def fun(x: Any) -> Any:
        raise Broken("mine")

    with pytest.raises(Broken, match="mine"):
        traced(fun, f32(4))


def test_a_callable_without_a_name() -> None:
    class Model:
        def __call__(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    with pytest.raises(TraceError, match="Model"):
        traced(Model(), f32(4))
    program = traced(jax.tree_util.Partial(jnp.add, 1.0), f32(4))
    assert program.name
