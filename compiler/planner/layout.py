"""Layouts: where the parts of a value live on a logical mesh.

Mesh axes are named by their position. A dim may be split by several axes, major first; a value may be a
*partial sum* over some axes: each device along them holds an addend. An axis used neither way replicates the
value.

Where a split does not divide its dim, the parts are rounded up and the last devices hold less, or nothing, as
XLA's partitioner has it. Inside a program only: JAX refuses such arguments and results.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..ir import TensorType
from ..plan.plan import Spec, ValueLayout

Axes = tuple[int, ...]

# How much larger than its dim a padded split may be. More would waste as many devices as a split over fewer
# axes leaves idle.
_MOST_PADDING = 4 / 3


@dataclass(frozen=True)
class Layout:
    """How one value is laid out.

    Attributes:
        dims: for each dim, the mesh axes that split it, major first.
        partial: axes along which the value is yet to be summed, ascending.
    """

    dims: tuple[Axes, ...]
    partial: Axes = ()

    @cached_property
    def split_axes(self) -> Axes:
        """All axes that split some dim."""
        return tuple(a for dim in self.dims for a in dim)

    @cached_property
    def used_axes(self) -> frozenset[int]:
        """Axes that split a dim or are pending summation."""
        return frozenset(self.split_axes) | frozenset(self.partial)

    def num_shards(self, mesh_shape: Sequence[int]) -> int:
        """Into how many different parts the value is cut."""
        return math.prod(mesh_shape[a] for a in self.split_axes)

    def local_bytes(self, type_: TensorType, mesh_shape: Sequence[int]) -> float:
        """Bytes that one device holds, padding included."""
        return float(self.local_elements(type_.shape, mesh_shape) * type_.itemsize_bytes)

    def local_elements(self, shape: Sequence[int], mesh_shape: Sequence[int]) -> int:
        """Elements that one device holds, padding included."""
        count = 1
        for size, axes in zip(shape, self.dims, strict=True):
            count *= -(-size // math.prod(mesh_shape[a] for a in axes)) if axes else size
        return count

    def with_leading_dim(self) -> Layout:
        """The layout of a stack of such values, the stacking dim unsplit."""
        return Layout(((), *self.dims), self.partial)

    def format(self, axis_names: Sequence[str]) -> str:
        """Text form: ``[data, -, model]``, with ``+data`` for a partial sum, ``replicated`` for none."""
        if not self.used_axes:
            return "replicated"
        dims = ["*".join(axis_names[a] for a in dim) or "-" for dim in self.dims]
        pending = "".join(f" +{axis_names[a]}" for a in self.partial)
        return f"[{', '.join(dims)}]{pending}"


def replicated(rank: int) -> Layout:
    """The layout in which every device holds the whole value."""
    return Layout(((),) * rank)


def can_split(size: int, parts: int, padded: bool = False) -> bool:
    """Whether a dim may be split.

    Args:
        size: its size.
        parts: into how many parts.
        padded: whether the last parts may be smaller.
    """
    return size % parts == 0 or (padded and -(-size // parts) * parts <= size * _MOST_PADDING)


def enumerate_layouts(
    shape: Sequence[int], mesh_shape: Sequence[int], padded: bool = False
) -> tuple[Layout, ...]:
    """All layouts without partial sums, replicated first.

    Args:
        shape: dim sizes of the value.
        mesh_shape: sizes of the mesh axes; axes of size 1 are never used.
        padded: whether a split need not divide its dim.
    """
    axes = [a for a, size in enumerate(mesh_shape) if size > 1]
    choices = itertools.product(*[range(-1, len(shape))] * len(axes))
    return tuple(_layouts(shape, mesh_shape, axes, choices, padded))


def _layouts(
    shape: Sequence[int],
    mesh_shape: Sequence[int],
    axes: Sequence[int],
    choices: Iterator[tuple[int, ...]],
    padded: bool,
) -> Iterator[Layout]:
    for chosen in choices:
        dims: list[list[int]] = [[] for _ in shape]
        for axis, dim in zip(axes, chosen, strict=True):
            if dim >= 0:
                dims[dim].append(axis)
        parts = [math.prod(mesh_shape[a] for a in dim) for dim in dims]
        if all(can_split(size, n, padded) for size, n in zip(shape, parts, strict=True)):
            yield Layout(tuple(map(tuple, dims)))


def spec_of(layout: Layout, axis_names: Sequence[str]) -> Spec:
    """A layout's splits by axis name, as plans say them."""
    return tuple(tuple(axis_names[a] for a in dim) for dim in layout.dims)


def layout_of(entry: ValueLayout, axis_names: Sequence[str]) -> Layout:
    """The layout that a plan's entry says."""
    dims = tuple(tuple(axis_names.index(name) for name in dim) for dim in entry.spec)
    return Layout(dims, tuple(axis_names.index(name) for name in entry.partial))
