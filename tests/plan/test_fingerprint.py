"""Fingerprints: equal for equal computations, different for whatever changes the plan."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.plan import program_fingerprint

ROOT = Path(__file__).parents[2]


def fingerprint(fun: Any, *args: Any, options: TraceOptions | None = None) -> str:
    return program_fingerprint(trace_program(fun, options or TraceOptions(), args, {}))


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, "float32")


def step(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


BASE = fingerprint(step, f32(4, 8), f32(8, 2))


def moved() -> Any:
    """The same function on other lines."""

    def step(x: Any, w: Any) -> Any:
        y = x @ w
        return jnp.tanh(y)

    return step


def test_code_may_move() -> None:
    assert fingerprint(moved(), f32(4, 8), f32(8, 2)) == BASE


def test_arrays_and_their_shapes_are_the_same() -> None:
    assert fingerprint(step, np.zeros((4, 8), np.float32), jnp.ones((8, 2))) == BASE


@pytest.mark.parametrize(
    "changed",
    [
        lambda: fingerprint(step, f32(6, 8), f32(8, 2)),
        lambda: fingerprint(step, f32(4, 8), jax.ShapeDtypeStruct((8, 2), "bfloat16")),
        lambda: fingerprint(lambda x, w: jnp.sin(x @ w), f32(4, 8), f32(8, 2)),
        lambda: fingerprint(lambda x, v: jnp.tanh(x @ v), f32(4, 8), f32(8, 2)),
        lambda: fingerprint(lambda x, w: {"y": jnp.tanh(x @ w)}, f32(4, 8), f32(8, 2)),
        lambda: fingerprint(lambda x, w: jnp.tanh(x @ w) * 2.0, f32(4, 8), f32(8, 2)),
    ],
    ids=["shape", "dtype", "operation", "argument-name", "result-path", "more"],
)
def test_what_differs_is_seen(changed: Any) -> None:
    assert changed() != BASE


def test_donation_is_seen() -> None:
    def double(x: Any) -> Any:
        return x * 2.0

    assert fingerprint(double, f32(4)) != fingerprint(double, f32(4), options=TraceOptions(donate_argnums=0))


def _looped(body: Any, length: int = 3) -> str:
    return fingerprint(lambda x: lax.scan(lambda c, _: (body(c), None), x, None, length)[0], f32(4))


def test_loop_bodies_and_trip_counts_count() -> None:
    assert _looped(jnp.sin) == _looped(jnp.sin)
    assert _looped(jnp.sin) != _looped(jnp.cos)
    assert _looped(jnp.sin) != _looped(jnp.sin, length=4)


def test_bodies_of_shard_map_count(devices: list[jax.Device]) -> None:
    mesh = Mesh(np.array(devices).reshape(2, 4), ("data", "model"))

    def of(factor: float) -> str:
        spec = P("data")
        scale = jax.shard_map(lambda v: v * factor, mesh=mesh, in_specs=spec, out_specs=spec)
        return fingerprint(lambda x: scale(x), f32(8, 8))

    assert of(2.0) == of(2.0)
    assert of(2.0) != of(3.0)


def test_literals_count_and_constants_do_not() -> None:
    assert fingerprint(lambda x: x * 2.0, f32(4)) != fingerprint(lambda x: x * 3.0, f32(4))

    def with_table(table: np.ndarray) -> str:
        def fun(x: Any) -> Any:
            return x + table

        return fingerprint(fun, f32(4))

    assert with_table(np.zeros(4, np.float32)) == with_table(np.arange(4, dtype=np.float32))


_ELSEWHERE = """
from tests.plan.test_fingerprint import BASE
print(BASE)
"""


def test_the_same_in_another_process() -> None:
    env = {**os.environ, "PYTHONHASHSEED": "11", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE], env=env, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == BASE
