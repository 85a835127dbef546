"""What plans and errors call a function."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from meshwright.compiler.errors import TraceError
from meshwright.compiler.frontend import function_name
from meshwright.compiler.plan import program_fingerprint
from tests.frontend.programs import f32, traced


def train_step(x: Any, scale: Any = 1.0) -> Any:
    return jnp.tanh(x) * scale


class Model:
    def __call__(self, x: Any) -> Any:
        return x + 1

    def step(self, x: Any) -> Any:
        return x + 1


@functools.wraps(functools.partial(train_step, scale=2.0))
def around_a_partial(*args: Any) -> Any:
    return train_step(*args)


square = lambda x: x * x  # noqa: E731
SQUARE = f"lambda at test_naming.py:{square.__code__.co_firstlineno}"


@pytest.mark.parametrize(
    ("fun", "name"),
    [
        (train_step, "train_step"),
        (functools.partial(train_step, scale=2.0), "train_step"),
        (functools.partial(functools.partial(train_step), scale=2.0), "train_step"),
        (jax.tree_util.Partial(train_step, scale=2.0), "train_step"),
        (jax.jit(train_step), "train_step"),
        (around_a_partial, "train_step"),
        (Model(), "Model"),
        (Model().step, "step"),
        (square, SQUARE),
        (functools.partial(square), SQUARE),
        (jax.jit(square), SQUARE),
    ],
)
def test_names(fun: Any, name: str) -> None:
    assert function_name(fun) == name
    assert traced(fun, f32(4)).name == name


def test_errors_say_where_a_lambda_stands() -> None:
    with pytest.raises(TraceError, match=r"^lambda at test_naming.py:\d+ cannot be traced"):
        traced(lambda x: x if x.sum() > 0 else -x, f32(4))


def test_a_lambda_may_move() -> None:
    here = lambda x: x * 2.0  # noqa: E731
    there = lambda x: x * 2.0  # noqa: E731
    programs = [traced(fun, f32(4)) for fun in (here, there)]
    assert programs[0].name != programs[1].name
    assert program_fingerprint(programs[0]) == program_fingerprint(programs[1])
