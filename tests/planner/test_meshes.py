"""Meshes as users give them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshwright as mw


def planned(mesh: Any) -> mw.Plan:
    square = jax.ShapeDtypeStruct((64, 64), "float32")
    return mw.plan(jnp.matmul, square, square, cluster="cpu:8", mesh=mesh)


@pytest.mark.parametrize(
    ("mesh", "shape", "names"),
    [
        (8, (8,), ("data",)),
        ([2, 4], (2, 4), ("data", "model")),
        (tuple(np.array([4, 2])), (4, 2), ("data", "model")),
        ({"rows": 2, "columns": 4}, (2, 4), ("rows", "columns")),
    ],
)
def test_forms(mesh: Any, shape: tuple[int, ...], names: tuple[str, ...]) -> None:
    plan = planned(mesh)
    assert (plan.mesh.shape, plan.mesh.axis_names) == (shape, names)


@pytest.mark.parametrize("mesh", ["2x4", "8", 8.0, (2.0, 4), (), {}, {"data": "2", "model": 4}, (None, 8)])
def test_what_is_no_mesh_is_told_the_forms(mesh: Any) -> None:
    with pytest.raises(
        mw.InvalidMeshError, match=r"^mesh=.* is no mesh: give the size of each axis, as \(2, 4\)"
    ):
        planned(mesh)
