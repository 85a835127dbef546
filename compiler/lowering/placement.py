"""JAX meshes and shardings for a plan's names."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from ..errors import PlanMismatchError
from ..plan import MeshSpec
from ..plan.plan import Spec


def device_mesh(mesh: MeshSpec, devices: Sequence[Any] | None = None) -> Mesh:
    """The JAX mesh of a plan.

    Args:
        mesh: shape and axis names.
        devices: devices in physical order; all of the default backend if None.

    Raises:
        PlanMismatchError: where there are fewer devices than the mesh has places.
    """
    placed = require_devices(math.prod(mesh.shape), devices)
    grid = np.array(placed, dtype=object).reshape(mesh.shape)
    return Mesh(grid, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))


def require_devices(num_devices: int, devices: Sequence[Any] | None = None) -> list[Any]:
    """The first devices of a process, as many as a plan needs.

    Args:
        num_devices: how many.
        devices: devices in physical order; all of the default backend if None.

    Raises:
        PlanMismatchError: where there are fewer, with how to get more.
    """
    available = list(jax.devices() if devices is None else devices)
    if len(available) < num_devices:
        fix = _how_to_get(num_devices, {device.platform for device in available})
        problem = f"The number of devices is {len(available)} here, but {num_devices} are needed."
        raise PlanMismatchError("the number of devices", num_devices, len(available), fix, problem)
    return available[:num_devices]


def _how_to_get(num_devices: int, platforms: Set[str]) -> str:
    flag = f"XLA_FLAGS=--xla_force_host_platform_device_count={num_devices}"
    settings = flag if platforms == {"cpu"} else f"JAX_PLATFORMS=cpu and {flag}"
    return (
        f"For {num_devices} virtual CPU devices, set {settings} before jax is imported. "
        "Planning alone (`.plan`, `meshwright plan`) needs no device."
    )


def named_sharding(mesh: Mesh | AbstractMesh, spec: Spec) -> NamedSharding:
    """The sharding of one array, trailing unsplit dims left out."""
    dims = [tuple(dim) for dim in spec]
    while dims and not dims[-1]:
        dims.pop()
    return NamedSharding(
        mesh, PartitionSpec(*(dim if len(dim) > 1 else dim[0] if dim else None for dim in dims))
    )
