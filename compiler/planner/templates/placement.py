"""A template on a mesh: which axis does what, and whether the program has what that needs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ....cost_models.mesh import LogicalMesh
from .catalogue import Part, Storage, Template
from .role import Role
from .roles import Roles


@dataclass(frozen=True)
class Placement:
    """A template with an axis for each part.

    Attributes:
        template: the template.
        parts: by mesh axis, what it does; None for an axis of one device.
    """

    template: Template
    parts: tuple[Part | None, ...]


def placement_in_order(template: Template, mesh: LogicalMesh) -> Placement | str:
    """The template's parts on the mesh's axes in order, or why it has too few."""
    axes = _axes(mesh)
    fault = _too_few(template, axes)
    return fault or _place(template, mesh, axes)


def placements(template: Template, mesh: LogicalMesh) -> Iterator[Placement]:
    """The template's parts on as many axes, in every order; none where there are more axes or fewer.

    Fewer parts than axes make the template of a mesh with fewer axes.
    """
    axes = _axes(mesh)
    if len(axes) == len(template.parts):
        yield from dict.fromkeys(_place(template, mesh, order) for order in itertools.permutations(axes))


def _axes(mesh: LogicalMesh) -> tuple[int, ...]:
    return tuple(a for a, size in enumerate(mesh.shape) if size > 1)


def _too_few(template: Template, axes: tuple[int, ...]) -> str | None:
    wanted = len(template.parts)
    if len(axes) >= wanted:
        return None
    has = f"has {len(axes)}" if axes else "is one device"
    return f"it needs {wanted} mesh {'axis' if wanted == 1 else 'axes'} and the mesh {has}"


def _place(template: Template, mesh: LogicalMesh, order: tuple[int, ...]) -> Placement:
    spare = len(order) - len(template.parts)
    parts: list[Part | None] = [None] * len(mesh.shape)
    for position, axis in enumerate(order):
        parts[axis] = template.parts[max(position - spare, 0)]
    return Placement(template, tuple(parts))


def why_not(placement: Placement, roles: Roles, mesh: LogicalMesh) -> str | None:
    """Why a template does not suit a program; None where it does."""
    parts = dict.fromkeys(part for part in placement.parts if part is not None)
    return next(filter(None, (_why_not(p, placement, roles, mesh) for p in parts)), None)


def _why_not(part: Part, placement: Placement, roles: Roles, mesh: LogicalMesh) -> str | None:
    axes = [a for a, p in enumerate(placement.parts) if p == part]
    over = "*".join(f"{mesh.axis_names[a]}={mesh.shape[a]}" for a in axes)
    count = math.prod(mesh.shape[a] for a in axes)
    for tier in part.uses:
        found = sorted({size for role in tier for size in roles.sizes[role]})
        if not found:
            return f"the program has no {_MISSING[tier[0]]}"
        if not any(size % count == 0 for size in found):
            names = " or ".join(role.value for role in tier)
            return f"{over} does not divide its {names} ({', '.join(map(str, found))})"
    if part.optimizer is Storage.SPLIT and not roles.parameters | roles.optimizer:
        return "the program has no parameters"
    return None


_MISSING = {
    Role.BATCH: "batch: no input has a dim that all activations carry",
    Role.SEQUENCE: "sequence: parameters are applied to no dim of activations but the batch",
    Role.INNER: "parameters applied to activations",
    Role.STREAM: "parameters applied to activations",
    Role.EXPERT: "experts: no product takes another set of parameters for each of a dim",
}
