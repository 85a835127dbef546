"""Which logical meshes a search considers."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Mapping

from ...cost_models.cluster import Cluster
from ...cost_models.mesh import LogicalMesh, candidate_meshes
from ..analysis.user_shardings import user_mesh
from ..errors import InvalidMeshError, PinError
from ..ir import Program
from .options import PlanOptions
from .pins import pinned_axes

# A third axis squares the number of layouts; two axes already hold every split of two factors.
_MAX_AXES = {0: 1, 1: 2, 2: 2, 3: 3}


def search_meshes(program: Program, cluster: Cluster, options: PlanOptions) -> tuple[LogicalMesh, ...]:
    """The meshes to try, in order: the one asked for, the one the program's own shardings name, or all.

    Raises:
        InvalidMeshError: where the mesh asked for does not fit the cluster.
        PinError: where no candidate has the axes that the pins name.
    """
    if options.mesh is not None:
        return (_given(cluster, options.mesh),)
    written = user_mesh(program)
    if written is not None and math.prod(written.values()) == cluster.num_devices:
        return (_given(cluster, written),)
    named = pinned_axes(options.pins)
    axes = max(_MAX_AXES[options.effort], len(named))
    candidates = candidate_meshes(cluster, axes)
    fitting = tuple(m for m in candidates if named <= set(m.axis_names))
    if not fitting:
        known = sorted({name for m in candidates for name in m.axis_names})
        raise PinError(
            f"pins name the axes {sorted(named)}, but meshes of {cluster.name} have {known}. "
            'Use these, or give the mesh with its axes: mesh={"data": 2, "model": 4}.'
        )
    return fitting


def _given(cluster: Cluster, mesh: object) -> LogicalMesh:
    if isinstance(mesh, Mapping):
        return LogicalMesh(cluster, _sizes(mesh, mesh.values()), tuple(map(str, mesh)))
    shape = _sizes(mesh, mesh if isinstance(mesh, Collection) else (mesh,))
    return LogicalMesh(cluster, shape, candidate_names(len(shape)))


def _sizes(mesh: object, sizes: Collection[object]) -> tuple[int, ...]:
    whole = tuple(int(size) for size in sizes if isinstance(size, numbers.Integral))
    if not whole or len(whole) != len(sizes):
        raise InvalidMeshError(
            f"mesh={mesh!r} is no mesh: give the size of each axis, as (2, 4), or sizes by name, as "
            '{"data": 2, "model": 4}.'
        )
    return whole


def candidate_names(count: int) -> tuple[str, ...]:
    """Default axis names of a mesh with ``count`` axes."""
    from ...cost_models.mesh import AXIS_NAMES

    return AXIS_NAMES[:count] + tuple(f"axis{i}" for i in range(len(AXIS_NAMES), count))
