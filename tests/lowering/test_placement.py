"""JAX meshes and shardings made from a plan's names."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import pytest
from jax.sharding import PartitionSpec as P

from meshwright.compiler.errors import PlanMismatchError
from meshwright.compiler.lowering import device_mesh, named_sharding, require_devices
from meshwright.compiler.plan import MeshSpec


def test_devices_are_laid_out_row_major(devices: list[jax.Device]) -> None:
    mesh = device_mesh(MeshSpec((2, 4), ("data", "model")), devices)
    assert mesh.axis_names == ("data", "model")
    assert [d.id for d in mesh.devices.flat] == [d.id for d in devices]
    assert mesh.shape == {"data": 2, "model": 4}


def test_a_smaller_mesh_takes_the_first_devices(devices: list[jax.Device]) -> None:
    mesh = device_mesh(MeshSpec((2,), ("data",)), devices)
    assert [d.id for d in mesh.devices] == [d.id for d in devices[:2]]


def test_too_few_devices(devices: list[jax.Device]) -> None:
    with pytest.raises(PlanMismatchError, match="number of devices is 8 here, but 16 are needed") as raised:
        device_mesh(MeshSpec((4, 4), ("data", "model")), devices)
    way = "For 16 virtual CPU devices, set XLA_FLAGS=--xla_force_host_platform_device_count=16 before jax is"
    assert way in str(raised.value)
    assert "Planning alone (`.plan`, `meshwright plan`) needs no device." in str(raised.value)


def test_too_few_accelerators() -> None:
    with pytest.raises(PlanMismatchError, match="For 2 virtual .* set JAX_PLATFORMS=cpu and XLA_FLAGS=.*=2"):
        require_devices(2, [SimpleNamespace(platform="gpu")])


def test_the_devices_a_plan_needs(devices: list[jax.Device]) -> None:
    assert require_devices(3, devices) == devices[:3]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ((), P()),
        (((), ()), P()),
        ((("data",), ()), P("data")),
        (((), ("model",)), P(None, "model")),
        ((("data", "model"), (), ()), P(("data", "model"))),
        (((), ("model", "data"), ()), P(None, ("model", "data"))),
    ],
)
def test_specs(spec: tuple[tuple[str, ...], ...], expected: P, devices: list[jax.Device]) -> None:
    mesh = device_mesh(MeshSpec((2, 4), ("data", "model")), devices)
    assert named_sharding(mesh, spec).spec == expected
