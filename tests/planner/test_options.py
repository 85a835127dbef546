"""Options of a search: every form that is taken, and the one error that every other one gets."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

from meshwright.compiler.errors import ArgumentError, InvalidMeshError, PinError
from meshwright.compiler.planner import PlanOptions

MESH = AbstractMesh((2, 4), ("data", "model"))
OTHER = AbstractMesh((4, 2), ("data", "model"))


@pytest.mark.parametrize(
    "mesh",
    [
        (2, 4),
        [2, 4],
        np.array([2, 4]),
        (np.int32(2), 4),
        "2x4",
        "data=2,model=4",
        {"data": 2, "model": 4},
        MESH,
        jax.make_mesh((2, 4), ("data", "model")),
    ],
)
def test_forms_of_a_mesh(mesh: Any) -> None:
    options = PlanOptions(mesh=mesh)
    assert options.mesh == {"data": 2, "model": 4}
    assert PlanOptions(**vars(options)) == options


def test_one_size_is_one_axis() -> None:
    assert PlanOptions(mesh=8).mesh == PlanOptions(mesh="8").mesh == {"data": 8}


@pytest.mark.parametrize(
    ("mesh", "reason"),
    [
        ("2y4", "is no mesh"),
        ("0x8", "at least one device"),
        ((2.0, 4.0), r"the size 2\.0 is no whole number"),
        (8.0, "is no mesh"),
        ((2, "4"), "the size '4' is no whole number"),
        ((0, 8), "at least one device"),
        ((-1, -8), "at least one device"),
        (True, "the size True is no whole number"),
        ((), "at least one axis"),
        ({}, "at least one axis"),
        ({2, 4}, "is no mesh"),
        ({"data": 2.5}, r"the size 2\.5 is no whole number"),
        ({0: 2}, "the axis name 0 is no text"),
        (object(), "is no mesh"),
    ],
)
def test_bad_meshes(mesh: Any, reason: str) -> None:
    with pytest.raises(InvalidMeshError, match=reason) as caught:
        PlanOptions(mesh=mesh)
    message = str(caught.value)
    assert f"mesh={mesh!r}" in message and "Write mesh=(2, 4)" in message


def test_forms_of_a_pin() -> None:
    named = NamedSharding(MESH, P("data"))
    pins = PlanOptions(pins={"a": P("data"), "b": (None, ("data", "model")), "c": (), "d": named}).pins
    assert pins == {"a": P("data"), "b": P(None, ("data", "model")), "c": P(), "d": named}


@pytest.mark.parametrize(
    ("pins", "reason"),
    [
        ([("w", P())], "is no mapping; give shardings by pytree path"),
        ("w=data", "is no mapping"),
        ({"w": None}, r"pin 'w' is None; P\(\) keeps it whole"),
        ({"w": "data"}, r"give a PartitionSpec: P\('data'\)"),
        ({"w": ["data"]}, r"pin 'w' is \['data'\]; give a PartitionSpec"),
        ({"params": {"w": P()}}, "pin 'params' is .*; give a PartitionSpec"),
        ({("params", "w"): P()}, r"pin key \('params', 'w'\) is no text"),
        ({"w": P(P.UNCONSTRAINED, "data")}, "pin 'w' leaves dim 0 open .*write None"),
        ({"w": P(None, 3)}, "pin 'w' has 3 for dim 1; write an axis name"),
        ({"w": (None, {"data"})}, r"pin 'w' is \(None, {'data'}\); give a PartitionSpec"),
        ({"w": P(unreduced=frozenset({"data"}))}, "pin 'w' .* no pending sums"),
        ({"v": NamedSharding(MESH, P()), "w": NamedSharding(OTHER, P())}, "pin 'w' is on a mesh of"),
    ],
)
def test_bad_pins(pins: Any, reason: str) -> None:
    with pytest.raises(PinError, match=reason):
        PlanOptions(pins=pins)


def test_all_bad_pins_are_listed() -> None:
    pins: Any = {"v": None, "w": "data"}
    with pytest.raises(PinError, match="pin 'v' is None.*pin 'w' is the text"):
        PlanOptions(pins=pins)


def test_pins_on_another_mesh_than_the_one_asked_for() -> None:
    pins = {"w": NamedSharding(MESH, P("data"))}
    assert PlanOptions(mesh="2x4", pins=pins).mesh == {"data": 2, "model": 4}
    with pytest.raises(PinError, match=r"pins are on a mesh of .*leave mesh= out, or pin by PartitionSpec"):
        PlanOptions(mesh=(4, 2), pins=pins)


@pytest.mark.parametrize(
    ("given", "size_bytes"), [("16GiB", 16 * 2**30), (1e9, 10**9), (np.float32(8), 8), (np.int64(8), 8)]
)
def test_forms_of_a_budget(given: Any, size_bytes: int) -> None:
    assert PlanOptions(budget_bytes=given).budget_bytes == size_bytes


@pytest.mark.parametrize(
    ("option", "value", "way_out"),
    [
        ("budget_bytes", "lots", "write 16GiB"),
        ("budget_bytes", "-1GiB", "write 16GiB"),
        ("budget_bytes", "0.1", "None for what the devices have"),
        ("budget_bytes", float("nan"), "None for what the devices have"),
        ("budget_bytes", float("inf"), "None for what the devices have"),
        ("budget_bytes", 0, "None for what the devices have"),
        ("budget_bytes", -1, "None for what the devices have"),
        ("budget_bytes", True, "None for what the devices have"),
        ("budget_bytes", [8], "None for what the devices have"),
        ("effort", "2", "0 .fast., 1, 2 and 3"),
        ("effort", True, "0 .fast., 1, 2 and 3"),
        ("effort", 1.0, "0 .fast., 1, 2 and 3"),
        ("effort", 7, "0 .fast., 1, 2 and 3"),
        ("effort", None, "0 .fast., 1, 2 and 3"),
        ("time_limit_s", "5", "None for no limit"),
        ("time_limit_s", 0, "None for no limit"),
        ("time_limit_s", float("nan"), "None for no limit"),
        ("time_limit_s", True, "None for no limit"),
    ],
)
def test_bad_numbers(option: str, value: Any, way_out: str) -> None:
    with pytest.raises(ArgumentError, match=way_out) as caught:
        PlanOptions(**{option: value})
    assert f"{option}={value!r}" in str(caught.value)
