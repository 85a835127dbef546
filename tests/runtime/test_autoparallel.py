"""The decorator behaves like ``jax.jit``: calls, options, transformations, threads."""

import copy
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import meshwright as mw

PINS = {"params/w": P(None, "data"), "x": P("data")}


def _params(seed: int = 0) -> dict[str, jax.Array]:
    return {"w": jax.random.normal(jax.random.key(seed), (16, 32)), "b": jnp.ones(32)}


def _x(rows: int = 16, seed: int = 1) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), (rows, 16))


def _predict(params: Any, x: jax.Array, power: int = 2, *, scale: Any = 1.0) -> jax.Array:
    return scale * jnp.tanh(x @ params["w"] + params["b"]) ** power


def _close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def _planned(fun: Callable[..., Any] = _predict, **options: Any) -> Any:
    return mw.autoparallel(fun, **{"cluster": "cpu:8", "mesh": (8,), "pins": PINS, **options})


def test_equals_the_plain_function_and_keeps_its_name() -> None:
    planned = _planned()
    _close(planned(_params(), _x()), _predict(_params(), _x()))
    assert planned.__name__ == "_predict"
    assert planned.__wrapped__ is _predict


def test_arguments_lie_as_planned_whatever_they_come_as() -> None:
    planned = _planned()
    expected = _predict(_params(), _x())
    mesh = jax.make_mesh((8,), ("other",))
    elsewhere = jax.device_put(_x(), NamedSharding(mesh, P(None, "other")))
    on_one_device = jax.device_put(_x(), jax.devices()[3])
    for x in (np.asarray(_x()), _x(), on_one_device, elsewhere):
        _close(planned(_params(), x), expected)


def test_new_shapes_are_planned_anew_and_old_ones_remembered() -> None:
    traces: list[tuple[int, ...]] = []

    def counted(params: Any, x: jax.Array) -> jax.Array:
        traces.append(x.shape)
        return _predict(params, x)

    planned = _planned(counted)
    for rows in (16, 32, 16, 32, 16):
        assert planned(_params(), _x(rows)).shape == (rows, 32)
    assert traces == [(16, 16), (32, 16)]


def test_static_arguments_by_number_and_by_name() -> None:
    planned, named = _planned(static_argnums=2), _planned(static_argnames="power")
    _close(planned(_params(), _x(), 3), _predict(_params(), _x(), 3))
    _close(named(_params(), _x(), power=3), _predict(_params(), _x(), 3))
    _close(named(_params(), _x(), 1), _predict(_params(), _x(), 1))


def test_keyword_arguments_and_python_numbers() -> None:
    planned = _planned(static_argnames="power")
    _close(planned(params=_params(), x=_x(), scale=2.0), _predict(_params(), _x(), scale=2.0))
    half = jnp.bfloat16(2)
    assert planned(_params(), _x(), scale=half).dtype == _predict(_params(), _x(), scale=half).dtype


def test_weak_types_promote_as_under_jit() -> None:
    def scaled(x: jax.Array, by: Any) -> jax.Array:
        return x * by

    planned = mw.autoparallel(scaled, cluster="cpu:8", mesh=(8,))
    half = jnp.ones(8, jnp.bfloat16)
    assert planned(half, jnp.float32(2)).dtype == jnp.float32
    assert planned(half, 2.0).dtype == jnp.bfloat16
    assert planned(half, jnp.float32(2)).dtype == jnp.float32


def test_donated_arguments_are_given_away() -> None:
    def step(state: Any, x: jax.Array) -> Any:
        return jax.tree.map(lambda p: p + x.sum(), state), x.mean()

    planned = mw.autoparallel(step, cluster="cpu:8", mesh=(8,), donate_argnums=0)
    state = planned.init(_params)
    planned.plan(state, _x())
    state, _ = planned(state, _x())
    kept = state["w"]
    state, _ = planned(state, _x())
    assert kept.is_deleted()
    assert not state["w"].is_deleted()


def test_donated_arguments_that_are_moved_are_given_away_too() -> None:
    planned = _planned(lambda state, x: {**state, "w": state["w"] + x.sum()}, pins={}, donate_argnums=0)
    state, x = _params(), _x()
    _close(planned(state, x)["w"], _params()["w"] + x.sum())
    assert all(leaf.is_deleted() for leaf in state.values())
    assert not x.is_deleted()


def test_state_goes_out_as_it_comes_in() -> None:
    def step(state: Any, x: jax.Array) -> Any:
        grads = jax.grad(lambda p: jnp.mean(_predict(p, x)))(state)
        return jax.tree.map(lambda p, g: p - g, state, grads), 0.0

    planned = mw.autoparallel(step, cluster="cpu:8", mesh=(8,), pins={"state/w": P("data")}, donate_argnums=0)
    state, _ = planned(_params(), _x())
    assert state["w"].sharding.spec == P("data")


def test_init_makes_no_array_whole_on_one_device() -> None:
    def make(seed: jax.Array) -> Any:
        return {"w": jax.random.normal(jax.random.key(seed), (64, 32)), "b": jnp.zeros(32)}

    def step(params: Any, x: jax.Array) -> Any:
        return jax.tree.map(lambda p: p * x.sum(), params), x

    unplanned = mw.autoparallel(step, cluster="cpu:8", mesh=(8,))
    pinned = mw.autoparallel(step, cluster="cpu:8", mesh=(8,), pins={"params/*": P("data")})
    shapes = jax.eval_shape(make, 0)
    pinned.plan(shapes, _x())
    for state in (unplanned.init(make, 0), pinned.init(make, 0)):
        for leaf, whole in zip(jax.tree.leaves(state), jax.tree.leaves(shapes), strict=True):
            assert all(shard.data.nbytes * 8 == whole.size * 4 for shard in leaf.addressable_shards)
    np.testing.assert_allclose(pinned.init(make, 3)["w"], make(3)["w"], rtol=1e-6)


def test_under_transformations() -> None:
    planned = _planned()

    def loss(params: Any) -> jax.Array:
        return jnp.sum(planned(params, _x()))

    expected = jax.grad(lambda p: jnp.sum(_predict(p, _x())))(_params())
    for found in (jax.grad(loss)(_params()), jax.jit(jax.grad(loss))(_params())):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), found, expected)
    stacked = jnp.stack([_x(16, seed) for seed in range(3)])
    batched = jax.vmap(planned, in_axes=(None, 0))(_params(), stacked)
    np.testing.assert_allclose(
        batched, jax.vmap(lambda x: _predict(_params(), x))(stacked), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("transform", ["grad", "jit", "vmap", "scan"])
def test_closes_over_a_value_of_the_transformation_around_it(transform: str) -> None:
    x = jnp.arange(8.0)

    def total(z: Any) -> jax.Array:
        return _planned(lambda x: x * z, pins={"x": P("data")})(x).sum()

    zs = jnp.arange(3.0)
    found, expected = {
        "grad": lambda: (jax.grad(total)(2.0), 28.0),
        "jit": lambda: (jax.jit(total)(2.0), 56.0),
        "vmap": lambda: (jax.vmap(total)(zs), 28.0 * zs),
        "scan": lambda: (jax.lax.scan(lambda c, z: (c, total(z)), 0.0, zs)[1], 28.0 * zs),
    }[transform]()
    _close(found, expected)


def test_closes_over_another_shape_in_the_next_call() -> None:
    held: list[Any] = []
    planned = _planned(lambda x: x * held[-1], pins={"x": P("data")})

    def total(z: Any) -> jax.Array:
        held.append(z)
        return planned(jnp.arange(8.0)).sum()

    _close(jax.grad(total)(2.0), 28.0)
    _close(jax.grad(lambda z: total(z))(jnp.ones(8)), jnp.arange(8.0))


def test_what_is_closed_over_from_an_ended_transformation_is_refused() -> None:
    held: list[Any] = []
    planned = _planned(lambda x: (x * held[0]).sum(), pins={})

    def outer(z: Any) -> jax.Array:
        held[:] = [z]
        return planned(jnp.arange(8.0))

    jax.grad(outer)(2.0)
    with pytest.raises(mw.TraceError, match="transformation that has ended"):
        planned(jnp.arange(8.0))


def test_lowering_what_is_closed_over_is_refused() -> None:
    def lowered(z: Any) -> Any:
        return _planned(lambda x: x * z, pins={}).lower(jnp.arange(8.0))

    with pytest.raises(mw.UnsupportedError, match="pass them as arguments"):
        jax.grad(lowered)(2.0)


def test_custom_derivatives_hold_under_grad() -> None:
    @jax.custom_vjp
    def clipped(x: jax.Array) -> jax.Array:
        return x

    clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1.0, 1.0),))
    planned = mw.autoparallel(lambda x: clipped(x) * 5.0, cluster="cpu:8", mesh=(8,))
    np.testing.assert_allclose(jax.grad(lambda x: planned(x).sum())(jnp.ones(8)), np.ones(8))


def test_planned_inside_planned() -> None:
    inner = _planned()

    @mw.autoparallel(cluster="cpu:8", mesh=(8,))
    def outer(params: Any, x: jax.Array) -> jax.Array:
        return inner(params, x) + 1.0

    _close(outer(_params(), _x()), _predict(_params(), _x()) + 1.0)


def test_closed_over_arrays() -> None:
    table = jax.random.normal(jax.random.key(5), (64, 16))
    planned = mw.autoparallel(lambda i: table[i] * 2.0, cluster="cpu:8", mesh=(8,))
    ids = jnp.arange(0, 64, 4)
    np.testing.assert_allclose(planned(ids), table[ids] * 2.0)


def test_methods_and_none_leaves() -> None:
    class Model:
        scale = 3.0

        @mw.autoparallel(cluster="cpu:8", mesh=(8,), static_argnums=0)
        def __call__(self, tree: Any) -> Any:
            return {"a": tree["a"] * self.scale, "none": None}

    found = Model().__call__({"a": jnp.ones(8), "none": None})
    assert found["none"] is None
    np.testing.assert_allclose(found["a"], 3 * np.ones(8))


def test_planned_methods_are_inspected_like_functions() -> None:
    class Model:
        @mw.autoparallel(cluster="cpu:8", mesh=(8,), static_argnums=0)
        def apply(self, x: jax.Array) -> jax.Array:
            return x * 2

    model = Model()
    assert model.apply.plan(_x()).arguments[0].path == "x"
    assert "stablehlo" in model.apply.lower(_x()).as_text()
    _close(model.apply(_x()), 2 * _x())
    _close(model.apply.init(_params)["b"], jnp.ones(32))


def test_a_saved_plan_takes_the_place_of_a_search() -> None:
    planned = _planned()
    plan = planned.plan(_params(), _x())
    again = planned.with_options(plan=plan)
    assert again.plan(_params(), _x()) is plan
    _close(again(_params(), _x()), _predict(_params(), _x()))


def test_copies_and_cleared_caches() -> None:
    planned = _planned()
    assert copy.deepcopy({"step": planned})["step"] is planned
    plan = planned.plan(_params(), _x())
    planned.clear_cache()
    assert planned.plan(_params(), _x()) is not plan


def test_elements_of_half_a_byte() -> None:
    small = jnp.arange(8, dtype=jnp.int4)
    planned = _planned(lambda x: x.astype(jnp.float32).mean(), pins={"x": P("data")})
    for _ in range(2):
        assert planned(small) == 3.5
    assert planned(jnp.ones(16, jnp.int4)) == 1.0


def test_threads_share_one_plan() -> None:
    plans: list[str] = []
    planned = _planned(progress=plans.append)
    barrier = threading.Barrier(4)

    def call(seed: int) -> bool:
        barrier.wait()
        found = planned(_params(seed), _x(16, seed))
        return bool(np.allclose(found, _predict(_params(seed), _x(16, seed)), rtol=1e-5, atol=1e-6))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(4)))
    assert len(plans) == 1


def test_inspection() -> None:
    planned = _planned()
    specs = jax.eval_shape(_params), jax.eval_shape(_x)
    plan = planned.plan(*specs)
    assert plan.shardings["params/w"] == ((), ("data",))
    assert plan == planned.plan(_params(), _x())
    assert "sdy.sharding" in planned.lower(*specs).as_text()
    assert planned.lower(*specs).compile().memory_analysis() is not None


@pytest.mark.parametrize("devices", [3, 6])
def test_fewer_devices_than_there_are(devices: int) -> None:
    planned = mw.autoparallel(_predict, cluster=f"cpu:{devices}", mesh=(devices,), pins={"x": P("data")})
    found = planned(_params(), _x(18))
    assert len(found.sharding.device_set) == devices
    _close(found, _predict(_params(), _x(18)))
