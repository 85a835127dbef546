"""Programs that XLA's partitioner got wrong as first planned; found by ``python -m benchmarks.fuzz``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshwright as mw

EAGER = Path(__file__).parents[1] / "numerics" / "eager.toml"
MESH = {"a": 2, "b": 2, "c": 2}


def _moved_rows(x: jax.Array) -> Any:
    return jax.value_and_grad(lambda x: jnp.mean(x.at[(jnp.arange(4) + 1) % 4].set(x) ** 2))(x)


def _updated_past_the_end(x: jax.Array, part: jax.Array, at: jax.Array) -> jax.Array:
    updated = jax.lax.dynamic_update_slice(x.reshape(3, 1, 2), part, (at, at, at))
    return jax.lax.pad(updated, jnp.float32(0.5), ((1, 0, 0), (2, 2, 0), (2, 2, 0)))


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        (_moved_rows, (_normal(4, 1, 3, 6),)),
        *((_updated_past_the_end, (_normal(1, 2, 1, 3), _normal(2, 1, 1), at)) for at in (0, 1, 2, -1)),
    ],
    ids=["gather", "update-0", "update-1", "update-2", "update-last"],
)
def test_planned_as_on_one_device(devices: Any, fun: Any, args: Any) -> None:
    planned = mw.autoparallel(fun, cluster=str(EAGER), mesh=MESH)(*args)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5), planned, jax.jit(fun)(*args))
