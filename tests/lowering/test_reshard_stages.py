"""Reshards are lowered in stages that XLA's partitioner can follow without replicating the array."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import meshwright as mw
from meshwright.compiler.planner.layout import Layout, enumerate_layouts, spec_of
from meshwright.compiler.planner.reshard import reshard_stages

MESH = (2, 4)
NAMES = ("x", "y")
SHAPE = (16, 8)
EAGER = Path(__file__).parents[1] / "numerics" / "eager.toml"
LAYOUTS = enumerate_layouts(SHAPE, MESH)


def _shown(stages: tuple[Layout, ...]) -> list[str]:
    return [stage.format(NAMES) for stage in stages]


def test_stages_by_hand() -> None:
    both, columns = Layout(((0, 1), ())), Layout(((), (1,)))
    assert _shown(reshard_stages(SHAPE, both, columns, MESH)) == ["[x, y]", "[-, y]"]
    assert _shown(reshard_stages(SHAPE, Layout(((), ()), (0, 1)), columns, MESH)) == ["[-, y]"]
    assert _shown(reshard_stages(SHAPE, Layout(((0,), ())), Layout(((), ())), MESH)) == ["replicated"]
    assert _shown(reshard_stages(SHAPE, Layout(((1,), ())), Layout(((), (0,))), MESH)) == ["[y, x]", "[-, x]"]


def test_a_stage_that_does_not_divide_is_left_out() -> None:
    assert _shown(reshard_stages((4, 2), Layout(((1,), ())), Layout(((0,), ())), MESH)) == ["[x, -]"]


@pytest.mark.parametrize(("source", "target"), list(itertools.product(LAYOUTS, LAYOUTS)))
def test_every_reshard_keeps_the_values_and_needs_no_full_copy(
    source: Layout, target: Layout, capfd: pytest.CaptureFixture[str]
) -> None:
    mesh = jax.make_mesh(MESH, NAMES, axis_types=(AxisType.Auto,) * 2)

    def at(array: Any, layout: Layout) -> Any:
        spec = P(*(dim or None for dim in spec_of(layout, NAMES)))
        return jax.lax.with_sharding_constraint(array, NamedSharding(mesh, spec))

    @jax.jit
    def moved(array: jax.Array) -> jax.Array:
        array = at(array * 2, source)
        for stage in reshard_stages(SHAPE, source, target, MESH):
            array = at(array, stage)
        return array

    array = jnp.arange(np.prod(SHAPE), dtype=jnp.float32).reshape(SHAPE)
    np.testing.assert_array_equal(moved(array), 2 * array)
    assert "Involuntary full rematerialization" not in capfd.readouterr().err


def test_a_reshard_does_not_reach_back_through_what_propagation_laid_out(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The gradient of the logits is elementwise, so nothing but its operands says its layout."""

    def loss(params: tuple[jax.Array, ...], x: jax.Array, labels: jax.Array) -> jax.Array:
        inner, outer, bias = params
        logits = jax.vmap(lambda row: outer @ row + bias)(jnp.tanh(x @ inner))
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    def step(params: tuple[jax.Array, ...], x: jax.Array, labels: jax.Array) -> tuple[jax.Array, ...]:
        return jax.tree.map(lambda p, g: p - g, params, jax.grad(loss)(params, x, labels))

    params = jnp.ones((32, 32)) / 32, jnp.ones((8, 32)) / 32, jnp.ones(8)
    batch = jnp.arange(8 * 32, dtype=jnp.float32).reshape(8, 32) / 256, jnp.zeros(8, jnp.int32)
    planned = mw.autoparallel(step, cluster=mw.Cluster.load(EAGER), mesh=MESH)
    jax.tree.map(
        lambda found, wanted: np.testing.assert_allclose(found, wanted, atol=1e-6),
        planned(params, *batch),
        jax.jit(step)(params, *batch),
    )
    assert "Involuntary full rematerialization" not in capfd.readouterr().err
