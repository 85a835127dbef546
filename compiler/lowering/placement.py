"""JAX meshes and shardings for a plan's names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

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
    grid = np.array(take_devices(math.prod(mesh.shape), devices), dtype=object).reshape(mesh.shape)
    return Mesh(grid, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))


def take_devices(count: int, devices: Sequence[Any] | None = None) -> list[Any]:
    """The first devices.

    Args:
        count: how many are needed.
        devices: devices in physical order; all of the default backend if None.

    Raises:
        PlanMismatchError: where there are fewer.
    """
    available = list(jax.devices() if devices is None else devices)
    if len(available) < count:
        raise PlanMismatchError("the number of devices", count, len(available))
    return available[:count]


def named_sharding(mesh: Mesh, spec: Spec) -> NamedSharding:
    """The sharding of one array, trailing unsplit dims left out."""
    dims = [tuple(dim) for dim in spec]
    while dims and not dims[-1]:
        dims.pop()
    return NamedSharding(
        mesh, PartitionSpec(*(dim if len(dim) > 1 else dim[0] if dim else None for dim in dims))
    )
