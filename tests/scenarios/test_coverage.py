"""What users of such systems ran into, part 1: operations and control flow.

Each test has the number of its row in the collected scenarios; the problem's address stands in its docstring.
Eight devices, mesh d=2 m=4; "equal" means close to the single-device program.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import meshwright as mw
from meshwright.compiler.ir import TensorType
from meshwright.compiler.planner.layout import enumerate_layouts
from meshwright.compiler.planner.reshard import reshard_time_s
from meshwright.cost_models.cluster import Cluster
from meshwright.cost_models.mesh import LogicalMesh

MESH = {"d": 2, "m": 4}


def _normal(*shape: int, seed: int = 0) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


def _planned(fun: Callable[..., Any], **options: Any) -> Any:
    return mw.autoparallel(fun, **{"cluster": "cpu:8", "mesh": MESH, **options})


def _equal(fun: Callable[..., Any], *args: Any, **options: Any) -> mw.Plan:
    planned = _planned(fun, **options)
    for found, wanted in zip(jax.tree.leaves(planned(*args)), jax.tree.leaves(fun(*args)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)
    return planned.plan(*args)


def _collectives(plan: mw.Plan) -> dict[str, int]:
    counts: dict[str, int] = {}
    for use in plan.collectives:
        counts[use.kind] = counts.get(use.kind, 0) + use.count
    return counts


def test_scenario_1_while_loop() -> None:
    """See https://github.com/alpa-projects/alpa/issues/400 for the report."""

    def fun(x: jax.Array, w: jax.Array) -> jax.Array:
        step = lambda c: (c[0] + 1, jnp.tanh(c[1] @ w))  # noqa: E731
        return lax.while_loop(lambda c: c[0] < 5, step, (0, x))[1]

    plan = _equal(fun, _normal(16, 16), _normal(16, 16, seed=1), pins={"x": P("d"), "w": P(None, "m")})
    assert plan.results[0].spec == plan.arguments[0].spec or plan.reshards


def test_scenario_3_embedding_lookup() -> None:
    """See https://github.com/alpa-projects/alpa/pull/787 for the report."""

    def fun(table: jax.Array, ids: jax.Array) -> jax.Array:
        return table[ids]

    ids = jnp.arange(32).reshape(4, 8) % 16
    by_rows = _equal(fun, _normal(16, 8), ids, pins={"table": P("m")})
    by_columns = _equal(fun, _normal(16, 8), ids, pins={"table": P(None, "m")})
    assert sum(_collectives(by_rows).values()) > 0
    assert sum(_collectives(by_columns).values()) == 0


def test_scenario_4_branches_inside_a_scan() -> None:
    """See https://github.com/alpa-projects/tensorflow-alpa/pull/124 for the report."""

    def fun(x: jax.Array, w: jax.Array) -> Any:
        def body(carry: jax.Array, row: jax.Array) -> Any:
            new = lax.cond(row.sum() > 0, lambda c: c @ w, lambda c: jnp.where(c > 0, c, 0.1 * c), carry)
            return new, new.mean()

        return lax.scan(body, x, w)

    _equal(fun, _normal(8, 16), 0.1 * _normal(16, 16, seed=1), pins={"x": P("d", "m")})


def test_scenario_5_dropout_needs_no_communication() -> None:
    """See https://github.com/alpa-projects/tensorflow-alpa/pull/13 for the report."""

    def fun(x: jax.Array) -> jax.Array:
        keep = jax.random.bernoulli(jax.random.key(3), 0.5, x.shape)
        return jnp.where(keep, 2.0 * x, 0.0)

    plan = _equal(fun, _normal(16, 32), pins={"x": P("d", "m")})
    assert _collectives(plan) == {}
    assert plan.results[0].spec == (("d",), ("m",))


@pytest.mark.parametrize("cluster", ["cpu:8", "h100:1x8", "h100:2x4", "v5e:2x4"])
@pytest.mark.parametrize("shape", [(16,), (16, 8), (16, 8, 8)])
def test_scenario_6_reshard_costs_are_sound(cluster: str, shape: tuple[int, ...]) -> None:
    """See https://github.com/alpa-projects/tensorflow-alpa/pull/99 for the report."""
    mesh = LogicalMesh(Cluster.load(cluster), (2, 4), ("d", "m"))
    layouts = enumerate_layouts(shape, mesh.shape)
    type_ = TensorType(shape, "float32", 4)
    for source in layouts:
        for target in layouts:
            cost = reshard_time_s(type_, source, target, mesh)
            assert math.isfinite(cost)
            assert cost >= 0
            assert (cost == 0) or source != target


def test_scenario_7_a_batch_that_only_some_axes_divide() -> None:
    """See https://github.com/alpa-projects/tensorflow-alpa/pull/72 for the report."""

    def fun(x: jax.Array, w: jax.Array) -> jax.Array:
        return x @ w

    plan = _equal(fun, _normal(12, 16), _normal(16, 16, seed=1))
    for array in (*plan.arguments, *plan.results):
        for size, axes in zip(array.shape, array.spec, strict=True):
            assert size % math.prod(MESH[a] for a in axes) == 0


def test_scenario_9_gradient_of_a_vocabulary_split_embedding() -> None:
    """See https://github.com/openxla/xla/issues/42481 for the report."""

    def step(table: jax.Array, ids: jax.Array) -> Any:
        grads = jax.grad(lambda t: jnp.sum(jnp.tanh(t[ids])))(table)
        return table - grads, grads.sum()

    ids = jnp.arange(32).reshape(8, 4) % 7
    plan = _equal(step, _normal(16, 8), ids, pins={"table": P("m"), "ids": P("d")}, donate_argnums=())
    assert plan.arguments[0].spec == (("m",), ())


def test_scenario_10_setting_one_row() -> None:
    """See https://github.com/jax-ml/jax/issues/23052 for the report."""
    plan = _equal(lambda a: a.at[3].set(0.0), _normal(16, 8), pins={"a": P(None, "m")})
    assert _collectives(plan) == {}


def test_scenario_11_roll_by_concatenation() -> None:
    """See https://github.com/jax-ml/jax/issues/39301 for the report."""

    def fun(a: jax.Array) -> jax.Array:
        return jnp.sum(jnp.concatenate([a[1:], a[:1]]).T ** 2 * jnp.arange(16.0))

    _equal(lambda a: (fun(a), jax.grad(fun)(a)), _normal(16, 8), pins={"a": P("d")})


def test_scenario_12_captured_constants() -> None:
    """See https://github.com/alpa-projects/alpa/issues/944 for the report."""
    table, mask = _normal(16, 8, seed=2), jnp.tril(jnp.ones((16, 16)))
    plan = _equal(lambda x: (mask @ x) * table, _normal(16, 8), pins={"x": P("d", "m")})
    assert len(plan.values) > 2


def test_scenario_13_a_mesh_larger_than_this_machine() -> None:
    """See https://github.com/pytorch/xla/issues/7853 for the report."""
    spec = jax.ShapeDtypeStruct((1024, 1024), jnp.float32)
    plan = mw.plan(lambda x, w: x @ w, spec, spec, cluster="h100:8x8", mesh={"d": 16, "m": 4})
    assert plan.num_devices == 64


def test_scenario_23_an_odd_vocabulary() -> None:
    """See https://github.com/meta-pytorch/autoparallel/pull/23 for the report."""

    def fun(table: jax.Array, ids: jax.Array) -> jax.Array:
        return table[ids] @ table.T

    plan = _equal(fun, _normal(257, 8), jnp.arange(8))
    assert plan.shardings["table"][0] == ()


def test_scenario_24_fewer_heads_than_devices() -> None:
    """See https://github.com/meta-pytorch/autoparallel/pull/22 for the report."""

    def fun(x: jax.Array, w: jax.Array) -> jax.Array:
        heads = (x @ w).reshape(8, 2, 8)
        return jnp.einsum("thd,shd->hts", heads, heads)

    plan = _equal(fun, _normal(8, 16), _normal(16, 16, seed=1))
    assert plan.results[0].shape == (2, 8, 8)
    assert "m" not in plan.results[0].spec[0]


def test_scenario_26_top_k_of_a_split_batch() -> None:
    """Rows are sorted one by one, so a split batch needs no gathering in the plan."""
    plan = _equal(lambda a: lax.top_k(a, 4), _normal(16, 8), pins={"a": P("d")})
    assert _collectives(plan) == {}
    planned = _planned(lambda a: lax.top_k(a, 4), pins={"a": P("d")})
    assert "all-gather" not in (planned.lower(_normal(16, 8)).compile().as_text() or "")
