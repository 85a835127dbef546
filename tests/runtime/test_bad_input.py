"""Bad input gets one clear error naming the argument, the number and the way out; nothing is half done."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import meshwright as mw


def _step(params: Any, batch: Any) -> Any:
    loss = jnp.mean((batch["x"] @ params["w"]) ** 2)
    return jax.tree.map(lambda p: p - loss, params), loss


def _arguments(rows: int = 32) -> tuple[Any, Any]:
    return {"w": np.ones((16, 8), np.float32)}, {"x": np.ones((rows, 16), np.float32)}


def _planned(**options: Any) -> Any:
    return mw.autoparallel(_step, **{"cluster": "cpu:8", "mesh": (8,), **options})


def _still_works(planned: Any) -> None:
    assert planned(*_arguments())[1].shape == ()


def test_a_batch_that_does_not_divide() -> None:
    planned = _planned(pins={"batch/x": P("data")})
    with pytest.raises(mw.IndivisibleError) as caught:
        planned(*_arguments(30))
    message = str(caught.value)
    assert all(part in message for part in ("batch/x", "30", "8", "data", "Pad it to 32"))
    _still_works(planned)


def test_an_unpinned_batch_that_does_not_divide_still_runs() -> None:
    planned = _planned()
    expected = _step(*_arguments(31))[1]
    np.testing.assert_allclose(planned(*_arguments(31))[1], expected, rtol=1e-6)


def test_a_plan_of_another_shape() -> None:
    plan = _planned().plan(*_arguments())
    with pytest.raises(mw.PlanMismatchError, match=r"batch/x.*64, 16.*32, 16"):
        mw.autoparallel(_step, plan=plan)(*_arguments(64))
    _still_works(mw.autoparallel(_step, plan=plan))


def test_a_plan_of_another_program() -> None:
    plan = _planned().plan(*_arguments())

    def other(params: Any, batch: Any) -> Any:
        return _step(params, {"x": jnp.tanh(batch["x"])})

    with pytest.raises(mw.PlanMismatchError, match="the computation of _step"):
        mw.autoparallel(other, plan=plan)(*_arguments())
    with pytest.raises(mw.PlanMismatchError, match="batch/x is .absent. here"):
        mw.autoparallel(lambda params, extra: params, plan=plan)(*_arguments())


def test_a_plan_for_other_devices() -> None:
    with pytest.raises(mw.PlanMismatchError, match=r"number of devices is 8 here, but 16 are needed"):
        mw.autoparallel(_step, cluster="cpu:16", mesh=(16,))(*_arguments())
    plan = _planned().plan(*_arguments())
    with pytest.raises(mw.PlanMismatchError, match="the cluster is 'h100:1x8' here but 'cpu:8'"):
        mw.autoparallel(_step, plan=plan, cluster="h100:1x8")(*_arguments())


@pytest.mark.parametrize("damage", ["cut", "altered", "text", "empty"])
def test_a_damaged_plan_file(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    _planned().plan(*_arguments()).save(path)
    content = path.read_bytes()
    altered = content.replace(b'"batch/x"', b'"batch/y"')
    path.write_bytes({"cut": content[:-50], "altered": altered, "text": b"hello", "empty": b""}[damage])
    with pytest.raises(mw.PlanFormatError, match=r"plan\.json"):
        mw.Plan.load(path)


def test_a_budget_nothing_fits_names_one_that_does() -> None:
    planned = _planned(budget_bytes=300)
    with pytest.raises(mw.InfeasibleError) as caught:
        planned.plan(*_arguments())
    error = caught.value
    assert error.budget_bytes == 300
    assert error.top_tensors and error.top_tensors[0][1] > 0
    assert "test_bad_input.py" in error.live_point
    fitting = _planned(budget_bytes=error.least_budget_bytes).plan(*_arguments())
    assert fitting.peak_memory_bytes <= error.least_budget_bytes
    with pytest.raises(mw.InfeasibleError):
        _planned(budget_bytes=error.least_budget_bytes - 1).plan(*_arguments())


@pytest.mark.parametrize("name", ["h1000:8", "h100", "h100:0x8", "h100:2x8x2", "v5e:3x5", "", "nowhere.toml"])
def test_an_unknown_cluster(name: str) -> None:
    with pytest.raises(mw.MeshwrightError) as caught:
        mw.autoparallel(_step, cluster=name)
    assert repr(name) in str(caught.value) or name in str(caught.value)


def test_a_function_that_cannot_be_traced() -> None:
    def branches(x: jax.Array) -> jax.Array:
        return x if x.sum() > 0 else -x

    with pytest.raises(mw.TraceError, match="branches cannot be traced"):
        mw.autoparallel(branches, cluster="cpu:8")(jnp.ones(8))


def test_errors_of_the_function_itself_come_through() -> None:
    def broken(x: jax.Array) -> jax.Array:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        mw.autoparallel(broken, cluster="cpu:8")(jnp.ones(8))


def test_leaves_that_are_no_arrays_are_all_named() -> None:
    with pytest.raises(mw.ArgumentError) as caught:
        _planned()({"w": "text", "v": object()}, {"x": np.ones(3)})
    assert all(part in str(caught.value) for part in ("params/w is 'text'", "params/v", "static_argnames"))


@pytest.mark.parametrize("by_name", [False, True])
def test_a_state_that_was_donated_before(by_name: bool) -> None:
    planned = _planned(donate_argnums=0, pins={"params/*": P()})
    params, batch = jax.device_put(_arguments())
    first, _ = planned(params, batch)
    planned(first, batch)
    with pytest.raises(mw.ArgumentError, match=r"params/w is no longer there.*donated"):
        planned(first, batch=batch) if by_name else planned(first, batch)
    _still_works(planned)


def test_a_random_key_that_was_donated_before() -> None:
    planned = mw.autoparallel(lambda key: jax.random.split(key)[0], cluster="cpu:8", donate_argnums=0)
    first = planned(jax.random.key(0))
    planned(first)
    with pytest.raises(mw.ArgumentError, match=r"key is no longer there"):
        planned(first)


def test_arrays_of_objects_and_texts() -> None:
    with pytest.raises(mw.ArgumentError, match=r"params/w is .* ndarray of object"):
        _planned()({"w": np.array([object()])}, {"x": np.ones(3)})
    with pytest.raises(mw.ArgumentError, match=r"params/w is .*str_"):
        _planned()({"w": np.str_("a")}, {"x": np.ones(3)})


def test_arguments_of_another_structure_than_a_given_plan() -> None:
    planned = mw.autoparallel(_step, plan=_planned().plan(*_arguments()))
    params, batch = _arguments()
    with pytest.raises(mw.PlanMismatchError, match="batch/x is 'absent' here"):
        planned(params, {})
    with pytest.raises(mw.PlanMismatchError, match="params/w"):
        planned(batch, params)
    _still_works(planned)


def test_static_arguments_that_cannot_be_hashed() -> None:
    planned = mw.autoparallel(lambda x, n: x, cluster="cpu:8", static_argnums=1)
    with pytest.raises(mw.ArgumentError, match=r"n is \[1\] of type list, which cannot be hashed"):
        planned(jnp.ones(8), [1])


@pytest.mark.parametrize(
    ("pins", "part"),
    [
        ({"params/v": P()}, "matches no argument"),
        ({"params/w": P("rows")}, "names the axis"),
        ({"params/w": P("data", "data")}, "an axis twice"),
        ({"params/w": P(None, None, "data")}, "has 3 dims"),
    ],
)
def test_pins_that_cannot_be_honoured(pins: Any, part: str) -> None:
    planned = _planned(pins=pins)
    with pytest.raises(mw.PinError, match=part) as caught:
        planned(*_arguments())
    assert next(iter(pins)) in str(caught.value)


def test_pins_on_axes_that_no_mesh_has() -> None:
    with pytest.raises(mw.PinError, match=r"rows.*mesh="):
        mw.autoparallel(_step, cluster="cpu:8", pins={"params/w": P("rows")})(*_arguments())


@pytest.mark.parametrize("mesh", [(3,), (2, 2), {"a": 8, "b": 2}, "2x2"])
def test_a_mesh_that_does_not_fit_is_told_at_once(mesh: Any) -> None:
    with pytest.raises(mw.InvalidMeshError, match="cpu:8 has 8 devices: try"):
        mw.autoparallel(_step, cluster="cpu:8", mesh=mesh)
    with pytest.raises(mw.InvalidMeshError, match="8 devices: try"):
        mw.autoparallel(_step, mesh=mesh)(*_arguments())


def test_several_bad_options_are_told_together() -> None:
    with pytest.raises(mw.ArgumentError) as caught:
        _planned(mesh=(0, 8), pins=[], effort="2", budget_bytes="lots")
    assert all(part in str(caught.value) for part in ("mesh=(0, 8)", "pins=[]", "effort='2'", "'lots'"))


@pytest.mark.parametrize(
    "options",
    [
        {"mesh": "2x4", "pins": {"batch/x": ("data",), "params/w": (None, "model")}},
        {"mesh": jax.sharding.AbstractMesh((2, 4), ("data", "model")), "pins": {"batch/x": P("data")}},
        {"pins": {"batch/x": NamedSharding(jax.make_mesh((2, 4), ("data", "model")), P("data"))}},
    ],
)
def test_options_in_other_forms_run(options: Any) -> None:
    planned = mw.autoparallel(_step, budget_bytes="1GiB", **options)
    plan = planned.plan(*_arguments())
    assert (plan.mesh.shape, plan.mesh.axis_names) == ((2, 4), ("data", "model"))
    assert plan.budget_bytes == 2**30
    assert plan.shardings["batch/x"] == (("data",), ())
    _still_works(planned)
    assert planned.with_options(effort=1).plan(*_arguments()).mesh == plan.mesh


@pytest.mark.parametrize("option", [{"pins": {"params/w": P()}}, {"budget_bytes": 1e9}, {"mesh": (8,)}])
def test_a_plan_beside_options_of_a_search_contradicts_itself(option: Any) -> None:
    plan = _planned().plan(*_arguments())
    with pytest.raises(mw.ArgumentError, match=f"leave out {next(iter(option))}="):
        mw.autoparallel(_step, plan=plan, **option)


def test_what_is_no_plan() -> None:
    with pytest.raises(mw.ArgumentError, match="plan=3 is no plan"):
        mw.autoparallel(_step, plan=3)
    with pytest.raises(mw.ArgumentError, match=r"nowhere\.json"):
        mw.autoparallel(_step, plan="nowhere.json")


def test_what_is_no_function() -> None:
    with pytest.raises(mw.ArgumentError, match="callable value, got 3"):
        mw.autoparallel(3)
    with pytest.raises(mw.ArgumentError, match=r"init takes the function.*not a dict"):
        _planned().init(_arguments()[0])


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"donate_argnums": 5}, "only accepts 2"),
        ({"donate_argnames": "optimizer"}, "'optimizer'"),
        ({"static_argnums": 0, "donate_argnums": 0}, "'params'"),
        ({"static_argnums": "x"}, "static_argnums='x'"),
    ],
)
def test_arguments_that_do_not_exist_or_clash(options: Any, part: str) -> None:
    with pytest.raises(mw.ArgumentError, match=part) as caught:
        _planned(**options)
    assert "_step" in str(caught.value)


def test_too_few_devices_are_noticed_before_a_search() -> None:
    lines: list[str] = []
    planned = mw.autoparallel(_step, cluster="cpu:16", progress=lines.append)
    with pytest.raises(mw.PlanMismatchError, match="number of devices"):
        planned(*_arguments())
    assert not lines
    planned.plan(*_arguments())
    assert lines
