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
    available = list(jax.devices() if devices is None else devices)
    wanted = math.prod(mesh.shape)
    if len(available) < wanted:
        raise PlanMismatchError("the number of devices", wanted, len(available))
    grid = np.array(available[:wanted], dtype=object).reshape(mesh.shape)
    return Mesh(grid, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))


def named_sharding(mesh: Mesh, spec: Spec) -> NamedSharding:
    """The sharding of one array, trailing unsplit dims left out."""
    dims = [tuple(dim) for dim in spec]
    while dims and not dims[-1]:
        dims.pop()
    return NamedSharding(
        mesh, PartitionSpec(*(dim if len(dim) > 1 else dim[0] if dim else None for dim in dims))
    )
