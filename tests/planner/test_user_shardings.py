"""Shardings that the program itself names are kept: constraints, manual regions, their mesh."""

from __future__ import annotations

import logging
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import meshwright as mw
from meshwright.compiler.plan import MeshSpec

X = jax.random.normal(jax.random.key(0), (16, 32))
W = jax.random.normal(jax.random.key(1), (32, 64))


def _mesh(*names: str) -> jax.sharding.Mesh:
    return jax.make_mesh((2, 4), names, axis_types=(AxisType.Auto,) * 2)


def _layouts(plan: mw.Plan) -> set[tuple[tuple[str, ...], ...]]:
    return {plan.layouts[i].spec for i in plan.values if i >= 0}


def test_a_constraint_is_kept_on_its_own_mesh() -> None:
    mesh = _mesh("rows", "columns")

    def fun(x: Any, w: Any) -> Any:
        return jax.lax.with_sharding_constraint(x @ w, NamedSharding(mesh, P("columns", "rows"))) * 2.0

    planned = mw.autoparallel(fun, cluster="cpu:8")
    plan = planned.plan(X, W)
    assert plan.mesh == MeshSpec((2, 4), ("rows", "columns"))
    assert (("columns",), ("rows",)) in _layouts(plan)
    np.testing.assert_allclose(planned(X, W), fun(X, W), rtol=1e-5, atol=1e-5)


def test_an_unconstrained_dim_stays_open() -> None:
    mesh = _mesh("rows", "columns")

    def fun(x: Any, w: Any) -> Any:
        spec = P(P.UNCONSTRAINED, "columns")
        return jax.lax.with_sharding_constraint(x @ w, NamedSharding(mesh, spec)).sum()

    found = _layouts(mw.plan(fun, X, W, cluster="cpu:8"))
    assert any(spec[1:] == (("columns",),) for spec in found)


def test_a_constraint_for_another_mesh_is_ignored_aloud(caplog: pytest.LogCaptureFixture) -> None:
    mesh = _mesh("rows", "columns")

    def fun(x: Any, w: Any) -> Any:
        return jax.lax.with_sharding_constraint(x @ w, NamedSharding(mesh, P("rows")))

    planned = mw.autoparallel(fun, cluster="cpu:8", mesh=(8,))
    with caplog.at_level(logging.WARNING, "meshwright"):
        np.testing.assert_allclose(planned(X, W), X @ W, rtol=1e-5, atol=1e-5)
    assert "test_user_shardings.py" in caplog.text
    assert "is ignored" in caplog.text


def test_a_manual_region_keeps_its_boundary() -> None:
    mesh = _mesh("rows", "columns")

    def mean(part: jax.Array) -> jax.Array:
        return jax.lax.pmean(part, "rows")

    def fun(x: Any, w: Any) -> Any:
        y = jax.shard_map(mean, mesh=mesh, in_specs=P("rows", "columns"), out_specs=P(None, "columns"))(x)
        return jnp.tanh(y @ w)

    planned = mw.autoparallel(fun, cluster="cpu:8")
    plan = planned.plan(X, W)
    assert plan.shardings["x"] == (("rows",), ("columns",))
    assert ((), ("columns",)) in _layouts(plan)
    np.testing.assert_allclose(planned(X, W), fun(X, W), rtol=1e-5, atol=1e-5)
