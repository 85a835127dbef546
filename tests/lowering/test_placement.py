"""JAX meshes and shardings made from a plan's names."""

from __future__ import annotations

import jax
import pytest
from jax.sharding import PartitionSpec as P

from meshwright.compiler.errors import PlanMismatchError
from meshwright.compiler.lowering import device_mesh, named_sharding
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
    with pytest.raises(PlanMismatchError, match="number of devices is 8 here but 16"):
        device_mesh(MeshSpec((4, 4), ("data", "model")), devices)


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
