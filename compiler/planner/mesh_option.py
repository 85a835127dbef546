"""Reads the mesh that a user asks for, in every form that it may have."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from jax.sharding import AbstractMesh, Mesh

from ...cost_models.mesh import axis_problems, default_axis_names
from ...cost_models.notation import parse_mesh
from ..errors import InvalidMeshError

MeshLike = str | int | Sequence[int] | Mapping[str, int] | Mesh | AbstractMesh

_FORMS = 'Write mesh=(2, 4), "2x4", {"data": 2, "model": 4} or a jax.sharding.Mesh; None searches all.'


def read_mesh(given: Any) -> dict[str, int]:
    """Axis sizes by name, in order.

    Args:
        given: sizes (which get default names), sizes by axis name, text as the command line takes it, or a
            JAX mesh, of which only the axes count: devices are laid out in the cluster's own order.

    Raises:
        InvalidMeshError: where it is none of these, or has no axes, sizes below one or equal names.
    """
    names, shape = _axes(given)
    problems = axis_problems(shape, names)
    if problems:
        raise InvalidMeshError(f"mesh={given!r}: {'; '.join(problems)}. {_FORMS}")
    return dict(zip(names, shape, strict=True))


def _axes(given: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Names and sizes, unchecked."""
    if isinstance(given, str):
        return _axes(_parsed(given))
    if isinstance(given, Mesh | AbstractMesh):
        return _axes(given.shape)
    if isinstance(given, Mapping):
        return tuple(given), tuple(map(_whole, given.values()))
    given = _whole(given)
    sizes = (given,) if isinstance(given, int) else given
    if not hasattr(sizes, "__getitem__"):
        raise InvalidMeshError(f"mesh={given!r} is no mesh. {_FORMS}")
    shape = tuple(map(_whole, sizes))
    return default_axis_names(len(shape)), shape


def _parsed(text: str) -> tuple[int, ...] | dict[str, int]:
    try:
        return parse_mesh(text)
    except ValueError as error:
        raise InvalidMeshError(f"mesh={text!r} is no mesh. {_FORMS}") from error


def _whole(size: Any) -> Any:
    """A whole number of any type (NumPy's too) as ``int``; anything else, and booleans, as they are."""
    if isinstance(size, bool):
        return size
    try:
        return operator.index(size)
    except TypeError:
        return size
