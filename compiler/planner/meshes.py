"""Which logical meshes a search considers."""

from __future__ import annotations

import math

from ...cost_models.cluster import Cluster
from ...cost_models.mesh import LogicalMesh, candidate_meshes
from ..analysis.user_shardings import user_mesh
from ..errors import PinError
from ..ir import Program
from .mesh_option import MeshLike, read_mesh
from .options import PlanOptions
from .pin_option import pinned_axes, pinned_mesh, read_pins
from .templates.catalogue import TEMPLATES

# A third axis squares the number of layouts; two axes already hold every split of two factors.
_MAX_AXES = {0: 1, 1: 2, 2: 2, 3: 3}


def search_meshes(program: Program, cluster: Cluster, options: PlanOptions) -> tuple[LogicalMesh, ...]:
    """The meshes to try, in order: the one asked for, or all.

    Pins on a mesh ask for it as ``mesh=`` does, and so do the program's own shardings where neither does.

    Raises:
        InvalidMeshError: where the mesh asked for does not fit the cluster.
        PinError: where no candidate has the axes that the pins name.
    """
    pins = read_pins(options.pins)
    asked = options.mesh if options.mesh is not None else pinned_mesh(pins)
    if asked is not None:
        return (given_mesh(cluster, asked),)
    written = user_mesh(program)
    if written is not None and math.prod(written.values()) == cluster.num_devices:
        return (given_mesh(cluster, written),)
    named = pinned_axes(pins)
    candidates = _candidates(cluster, options, len(named))
    fitting = tuple(m for m in candidates if named <= set(m.axis_names))
    if not fitting:
        known = sorted({name for m in candidates for name in m.axis_names})
        raise PinError(
            f"pins name the axes {sorted(named)}, but meshes of {cluster.name} have {known}. "
            'Use these, or give the mesh with its axes: mesh={"data": 2, "model": 4}.'
        )
    return fitting


def _candidates(cluster: Cluster, options: PlanOptions, num_named: int) -> tuple[LogicalMesh, ...]:
    """A template gives each axis its part by position, so the order of sizes matters to it."""
    if options.template is None:
        return candidate_meshes(cluster, max(_MAX_AXES[options.effort], num_named))
    axes = max(len(TEMPLATES[options.template].parts), num_named)
    return candidate_meshes(cluster, axes, axes, ordered=True) or candidate_meshes(cluster, axes)


def given_mesh(cluster: Cluster, mesh: MeshLike) -> LogicalMesh:
    """The mesh that a user asks for.

    Raises:
        InvalidMeshError: where it does not fit the cluster.
    """
    axes = read_mesh(mesh)
    return LogicalMesh(cluster, tuple(axes.values()), tuple(axes))
