"""Cuts a Pallas call down to parts of its arrays.

A traced kernel holds a grid and, for each array, the block that a grid point reads: an array is cut between
blocks, and the grid shortened along the axis that counts them. That is only possible where the block's index
is that axis itself, for every array that the axis moves through. The kernel's body, which sees blocks alone,
stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import UnsupportedError
from ..ir import Node

Shapes = Sequence[tuple[int, ...]]


def resized(avals: Sequence[Any], shapes: Shapes) -> tuple[Any, ...]:
    """Abstract values with other shapes."""
    return tuple(aval.update(shape=tuple(shape)) for aval, shape in zip(avals, shapes, strict=True))


def pallas_params(node: Node, operands: Shapes, results: Shapes) -> dict[str, Any]:
    """A kernel's parameters for arrays of other shapes.

    Raises:
        UnsupportedError: where the arrays are not cut between blocks, or the grid cannot follow.
    """
    grid_mapping = node.params["grid_mapping"]
    first = len(operands) - grid_mapping.num_inputs
    for value, shape in zip(node.operands[:first], operands[:first], strict=True):
        if value.type.shape != tuple(shape):
            raise UnsupportedError(f"{node.op}: an operand that steers the grid cannot be split.")
    shapes = [*operands[first:], *results]
    grid = _shortened(grid_mapping, shapes)
    mappings = tuple(
        m.replace(array_aval=m.array_aval.update(shape=tuple(shape)))
        for m, shape in zip(grid_mapping.block_mappings, shapes, strict=True)
    )
    return {
        **node.params,
        "grid_mapping": grid_mapping.replace(grid=grid, block_mappings=mappings),
        "out_avals": resized(node.params["out_avals"], results),
    }


def _shortened(grid_mapping: Any, shapes: Shapes) -> tuple[Any, ...]:
    """The grid for parts: each axis that counts the blocks of a split dim, divided by the number of parts."""
    parts: dict[int, int] = {}
    for mapping, shape in zip(grid_mapping.block_mappings, shapes, strict=True):
        for dim, (size, local) in enumerate(zip(mapping.array_aval.shape, shape, strict=True)):
            if size != local:
                axis = _counting_axis(mapping, dim, local)
                if parts.setdefault(axis, size // local) != size // local:
                    raise UnsupportedError(f"axis {axis} of the grid counts dims that are split differently.")
    for mapping, shape in zip(grid_mapping.block_mappings, shapes, strict=True):
        _check_moves(mapping, shape, parts)
    grid = list(grid_mapping.grid)
    for axis, count in parts.items():
        if not isinstance(grid[axis], int) or grid[axis] % count:
            raise UnsupportedError(f"axis {axis} of the grid, {grid[axis]}, cannot be cut into {count}.")
        grid[axis] //= count
    return tuple(grid)


def _counting_axis(mapping: Any, dim: int, local: int) -> int:
    """The grid axis that is the index of a dim's blocks."""
    block = getattr(mapping.block_shape[dim], "block_size", 1)
    kind = type(mapping.block_shape[dim]).__name__
    axis = _axis_of(mapping, mapping.index_map_jaxpr.jaxpr.outvars[dim])
    if local % block or kind not in ("Blocked", "Squeezed") or axis is None:
        raise UnsupportedError(
            f"dim {dim} of {mapping.origin} cannot be cut: its blocks of {block} are not counted by an "
            f"axis of the grid, or do not fill a part of {local}."
        )
    return axis


def _axis_of(mapping: Any, index: Any) -> int | None:
    """The grid axis that a variable of an index map is; not ``in``, because literals have no equality."""
    inputs = mapping.index_map_jaxpr.jaxpr.invars
    return next((axis for axis, known in enumerate(inputs) if known is index), None)


def _check_moves(mapping: Any, shape: tuple[int, ...], parts: Mapping[int, int]) -> None:
    """An array that a shortened axis moves through must be cut too, or a part would see the wrong rows."""
    jaxpr = mapping.index_map_jaxpr.jaxpr
    for dim, index in enumerate(jaxpr.outvars):
        if _axis_of(mapping, index) in parts and mapping.array_aval.shape[dim] == shape[dim]:
            raise UnsupportedError(f"dim {dim} of {mapping.origin} is read along an axis that is split.")
    if any(_axis_of(mapping, v) in parts for eqn in jaxpr.eqns for v in eqn.invars):
        raise UnsupportedError(f"the index map of {mapping.origin} computes with an axis that is split.")
