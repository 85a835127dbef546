"""What one operation of a sweep is in JAX: a step from an array to the next, and its operands.

A program is a chain of equal steps, each of which needs the result of the last, so that nothing runs at once
and the time of one is that of the chain over its length. Arithmetic keeps values near 1 (or at 0): denormals
and infinities would take a time of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...cost_models.calibration.points import (
    ITEM_BYTES,
    VECTOR_ROUNDS,
    CollectivePoint,
    ComputePoint,
    Operation,
    Point,
)
from ...cost_models.collectives import Collective

_DTYPES = {"f32": jnp.float32, "f32_default": jnp.float32, "bf16": jnp.bfloat16, "f16": jnp.float16}
_MOVED_BYTES = ITEM_BYTES["f32"]
_NARROW, _SHIFT, _LEAST = 0.5, 0.25, 0.125  # x -> max(x / 2 + 1/4, 1/8) stays near 1/2


@dataclass(frozen=True)
class Step:
    """One operation, inside `shard_map` on one device.

    Attributes:
        run: from the array carried along the chain and the constant ones to the next carried array.
        carried: makes the first, as NumPy would or on the device.
        constants: make the others.
        fuses: whether XLA would merge two such steps into one kernel, unless a loop keeps them apart.
    """

    run: Callable[..., jax.Array]
    carried: Callable[[], Any]
    constants: tuple[Callable[[], Any], ...] = ()
    fuses: bool = False


def step_of(point: Point, axis_names: tuple[str, ...]) -> Step:
    """The step of a point.

    Args:
        point: what to run.
        axis_names: of the mesh it runs on.
    """
    if isinstance(point, CollectivePoint):
        return _collective(point, tuple(axis_names[axis] for axis in point.axes))
    if point.operation is Operation.MATMUL:
        return _product(point)
    return _elementwise(point)


def _product(point: ComputePoint) -> Step:
    """The product x w, with the columns of w summing to 1."""
    precision = lax.Precision.HIGHEST if point.dtype == "f32" else lax.Precision.DEFAULT
    dtype, size = _DTYPES[point.dtype], point.size

    def run(x: jax.Array, w: jax.Array) -> jax.Array:
        return lax.dot(x, w, precision=precision)

    def weights() -> np.ndarray:
        random = np.random.default_rng(0).random((size, size), np.float32)
        return (random / random.sum(axis=0)).astype(dtype)

    return Step(
        run, lambda: np.random.default_rng(1).random((size, size), np.float32).astype(dtype), (weights,)
    )


def _elementwise(point: ComputePoint) -> Step:
    def scale(x: jax.Array) -> jax.Array:
        return x * _NARROW + _SHIFT

    def add(x: jax.Array, y: jax.Array) -> jax.Array:
        return x + y

    def vector(x: jax.Array) -> jax.Array:
        for _ in range(VECTOR_ROUNDS):
            x = jnp.maximum(x * _NARROW + _SHIFT, _LEAST)
        return x

    shape, dtype = (point.size,), _DTYPES[point.dtype]
    ones = _filled(shape, dtype, 1.0)
    if point.operation is Operation.ADD:
        return Step(add, ones, (_filled(shape, dtype, 0.0),), fuses=True)
    return Step(scale if point.operation is Operation.SCALE else vector, ones, fuses=True)


def _collective(point: CollectivePoint, axes: tuple[str, ...]) -> Step:
    size = point.group_size
    whole = point.kind in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER)
    local = point.full_bytes // _MOVED_BYTES // (1 if whole else size)
    ring = [(member, (member + 1) % size) for member in range(size)]

    def updated(x: jax.Array, result: jax.Array) -> jax.Array:
        """The operand of the next, in one element of which the last is waited for."""
        return x.at[0].set(result[0])

    runs = {
        Collective.ALL_REDUCE: lambda x: lax.psum(x, axes),
        Collective.ALL_GATHER: lambda x: updated(x, lax.all_gather(x, axes, tiled=True)),
        Collective.REDUCE_SCATTER: lambda x: updated(x, lax.psum_scatter(x, axes, tiled=True)),
        Collective.ALL_TO_ALL: lambda x: lax.all_to_all(x, axes, 0, 0, tiled=True),
        Collective.PERMUTE: lambda x: lax.ppermute(x, axes, ring),
    }
    return Step(runs[point.kind], _filled((local,), jnp.float32, 0.0))


def _filled(shape: tuple[int, ...], dtype: Any, value: float) -> Callable[[], Any]:
    return lambda: jnp.full(shape, value, dtype)
