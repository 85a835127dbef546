"""What users of such systems ran into, part 2: layout choices and fights with the partitioner.

Each test has the number of its row in the collected scenarios; see ``test_coverage``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import meshwright as mw

MESH = {"d": 2, "m": 4}
# On it, sending is cheap: whatever can be split is.
EAGER = str(Path(__file__).parent.parent / "numerics" / "eager.toml")


def _normal(*shape: int, seed: int = 0) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


def _planned(fun: Callable[..., Any], **options: Any) -> Any:
    return mw.autoparallel(fun, **{"cluster": "cpu:8", "mesh": MESH, **options})


def _spec(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _compiled_text(planned: Any, *args: Any) -> str:
    return planned.lower(*args).compile().as_text()


def _compiled_kinds(planned: Any, *args: Any) -> set[str]:
    """Kinds of collectives in the compiled program."""
    kinds = "all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute"
    return set(re.findall(rf"[\])}}] ({kinds})\(", _compiled_text(planned, *args)))


def test_scenario_17_no_involuntary_full_rematerialization(capfd: pytest.CaptureFixture[str]) -> None:
    """See https://github.com/jax-ml/jax/issues/21562 for the report."""

    def fun(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.sum(a * b)

    pins = {"a": P("y", None, "x"), "b": P(None, ("x", "y"), None)}
    planned = _planned(fun, mesh={"x": 4, "y": 2}, pins=pins)
    a, b = _normal(8, 16, 8), _normal(8, 16, 8, seed=1)
    np.testing.assert_allclose(planned(a, b), fun(a, b), rtol=1e-4)
    assert "Involuntary full rematerialization" not in capfd.readouterr().err


def test_scenario_18_communication_names_the_users_line() -> None:
    """See https://github.com/jax-ml/jax/issues/18591 for the report."""

    def fun(a: jax.Array, b: jax.Array) -> jax.Array:
        return a + b

    plan = _planned(fun, pins={"a": P("d"), "b": P(None, "d")}).plan(_spec(16, 16), _spec(16, 16))
    assert plan.collectives
    assert all("test_layouts.py:" in use.source for use in plan.collectives if use.op != "result")


def test_scenario_19_a_batch_reshaped_to_micro_batches() -> None:
    """See https://github.com/openxla/xla/issues/13306 for the report."""

    def fun(x: jax.Array, w: jax.Array) -> jax.Array:
        micro = x.reshape(4, 64, 64)
        return lax.scan(lambda total, part: (total + jnp.tanh(part @ w).sum(0), None), jnp.zeros(64), micro)[
            0
        ]

    planned = _planned(fun, pins={"x": P(("d", "m"))})
    x, w = _normal(256, 64), _normal(64, 64, seed=1)
    np.testing.assert_allclose(planned(x, w), fun(x, w), rtol=1e-4, atol=1e-4)
    assert _compiled_kinds(planned, x, w) == {use.kind for use in planned.plan(x, w).collectives}


@pytest.mark.parametrize(("a", "b"), [(P("d", "m"), P("m")), (P(None, "m"), P("m", "d"))])
def test_scenario_20_a_product_split_along_the_contracted_and_a_free_dim(a: P, b: P) -> None:
    """See https://github.com/openxla/xla/issues/4062 for the report."""
    planned = _planned(lambda a, b: jnp.tanh(a @ b), pins={"a": a, "b": b})
    x, y = _normal(64, 64), _normal(64, 64, seed=1)
    np.testing.assert_allclose(planned(x, y), jnp.tanh(x @ y), rtol=1e-4, atol=1e-5)
    (use,) = planned.plan(x, y).collectives
    # XLA for the CPU has no reduce-scatter: it reduces to all, and each device takes its part.
    assert _compiled_kinds(planned, x, y) == {use.kind.replace("reduce-scatter", "all-reduce")}


def test_scenario_21_an_indivisible_pin_is_refused_at_once() -> None:
    """See https://github.com/jax-ml/jax/issues/15788 for the report."""
    planned = _planned(lambda w: w * 2, mesh={"m": 8}, pins={"w": P("m")})
    with pytest.raises(mw.IndivisibleError, match="w: dimension 0 has size 7"):
        planned(_normal(7, 3))
    inside = _planned(lambda w: jnp.tanh(w @ w.T).sum(), mesh={"m": 8}, cluster=EAGER)
    w = _normal(7, 3)
    np.testing.assert_allclose(inside(w), jnp.tanh(w @ w.T).sum(), rtol=1e-5)
    assert inside.plan(w).shardings["w"] == ((), ())
    assert any(("m",) in layout.spec for layout in inside.plan(w).layouts)


def test_scenario_27_gradients_in_a_scan_lie_as_the_parameters() -> None:
    """See https://github.com/pytorch/xla/issues/8883 for the report."""

    def step(params: Any, x: jax.Array) -> Any:
        def loss(p: Any) -> jax.Array:
            return jnp.mean(lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, p)[0] ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        return params - 0.1 * grads, value

    planned = _planned(step, pins={"params": P(None, "d", "m")}, donate_argnums=0)
    params, x = 0.2 * _normal(8, 16, 16), _normal(8, 16, seed=1)
    expected, value = step(params, x)
    plan = planned.plan(params, x)
    stacked = [plan.layouts[i].spec for i in plan.values if i >= 0 and len(plan.layouts[i].spec) == 3]
    assert stacked.count(((), ("d",), ("m",))) >= 2
    found, found_value = planned(params, x)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(found_value, value, rtol=1e-5)


def test_scenario_28_gathered_weights_are_not_kept_for_the_backward_pass() -> None:
    """See https://github.com/pytorch/xla/issues/6379 for the report."""

    def step(weights: list[jax.Array], x: jax.Array) -> Any:
        def loss(weights: list[jax.Array]) -> jax.Array:
            hidden = x
            for w in weights:
                hidden = jnp.tanh(hidden @ w)
            return jnp.mean(hidden**2)

        return jax.tree.map(lambda w, g: w - g, weights, jax.grad(loss)(weights))

    weights, x = [_spec(128, 128)] * 8, _spec(4096, 128)
    planned = _planned(step, mesh={"d": 8}, pins={"weights/*": P("d"), "x": P("d")}, donate_argnums=0)
    plan = planned.plan(weights, x)
    gathers = sum(use.count for use in plan.collectives if use.kind == "all-gather")
    assert gathers == 8 + 7  # the last layer's copy is still there
    # Reads a few operations apart share a copy.
    assert gathers - 1 <= _compiled_text(planned, weights, x).count(" all-gather(") <= gathers
    copies = sum(live.count for live in plan.memory.largest if live.name.startswith("copy of weights"))
    assert copies <= 2


def test_scenario_29_a_pin_is_kept_and_the_rest_arranged_around_it() -> None:
    """See https://github.com/alpa-projects/alpa/issues/550 for the report."""

    def fun(w1: jax.Array, w2: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ w1) @ w2

    specs = _spec(512, 2048), _spec(2048, 512), _spec(64, 512)
    plan = _planned(fun, pins={"w1": P(None, "m")}).plan(*specs)
    assert plan.shardings["w1"] == ((), ("m",))
    assert "m" in plan.shardings["w2"][0]


def test_scenario_30_all_pinned_is_a_cost_report() -> None:
    """See https://github.com/alpa-projects/alpa/pull/816 for the report."""

    def fun(w: jax.Array, x: jax.Array) -> jax.Array:
        return x @ w

    plan = _planned(fun, pins={"w": P("m"), "x": P("d", "m")}).plan(_spec(64, 64), _spec(64, 64))
    assert plan.shardings == {"w": (("m",), ()), "x": (("d",), ("m",))}
    assert plan.step_time_s > 0


def test_scenario_32_both_axes_are_used_for_a_tiny_batch() -> None:
    """See https://github.com/meta-pytorch/autoparallel/pull/320 for the report."""

    def fun(w1: jax.Array, w2: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ w1) @ w2

    specs = _spec(4096, 16384), _spec(16384, 4096), _spec(4, 4096)
    plan = mw.plan(fun, *specs, cluster="h100:1x8", mesh=MESH)
    assert {"d", "m"} <= {axis for dim in plan.shardings["w1"] for axis in dim}
    pins = (P("d"), P(None, "m"))
    alone = [mw.plan(fun, *specs, cluster="h100:1x8", mesh=MESH, pins={"w1": pin}) for pin in pins]
    assert all(plan.objective_s <= other.objective_s * (1 + 1e-9) for other in alone)


def test_scenario_p19_gradients_through_a_manual_region() -> None:
    """See https://github.com/meta-pytorch/autoparallel/issues/515 for the report."""
    mesh = jax.make_mesh((2, 4), ("d", "m"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

    def attention(q: jax.Array, k: jax.Array) -> jax.Array:
        return q * lax.all_gather(k, "d", axis=0, tiled=True).sum(0)

    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        spec = P("d", "m")
        mixed = jax.shard_map(attention, mesh=mesh, in_specs=(spec, spec), out_specs=spec)(x @ w, x)
        return jnp.mean(mixed**2)

    def step(w: jax.Array, x: jax.Array) -> Any:
        value, grads = jax.value_and_grad(loss)(w, x)
        return w - 0.1 * grads, value

    w, x = 0.1 * _normal(16, 16), _normal(8, 16, seed=1)
    found, expected = mw.autoparallel(step, cluster="cpu:8")(w, x), jax.jit(step)(w, x)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), found, expected)
