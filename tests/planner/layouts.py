"""Layouts and simulated blocks for the tests of layouts and reshards."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from meshwright.compiler.planner.layout import Layout

PARTIAL = -2


def layouts_with_partial(rank: int) -> list[Layout]:
    """All layouts on two axes, pending sums and both axis orders included."""
    found = []
    for chosen in itertools.product(range(PARTIAL, rank), repeat=2):
        dims: list[tuple[int, ...]] = [() for _ in range(rank)]
        for axis, dim in enumerate(chosen):
            if dim >= 0:
                dims[dim] = (*dims[dim], axis)
        partial = tuple(a for a, dim in enumerate(chosen) if dim == PARTIAL)
        found.append(Layout(tuple(dims), partial))
        if chosen[0] == chosen[1] >= 0:
            dims[chosen[0]] = (1, 0)
            found.append(Layout(tuple(dims)))
    return found


def block(layout: Layout, shape: Sequence[int], mesh: Sequence[int], device: Sequence[int]) -> np.ndarray:
    """Which elements a device holds, as a mask over the whole array."""
    held = np.zeros(shape, bool)
    window = []
    for size, axes in zip(shape, layout.dims, strict=True):
        place, parts = 0, 1
        for axis in axes:
            place, parts = place * mesh[axis] + device[axis], parts * mesh[axis]
        step = size // parts
        window.append(slice(place * step, (place + 1) * step))
    held[tuple(window)] = True
    return held


def missing_bytes(
    source: Layout, target: Layout, shape: Sequence[int], itemsize_bytes: int, mesh: Sequence[int]
) -> int:
    """The most bytes a device lacks of its target block: no reshard can move less."""
    devices = np.ndindex(*mesh)
    lacking = [int((block(target, shape, mesh, d) & ~block(source, shape, mesh, d)).sum()) for d in devices]
    return max(lacking) * itemsize_bytes
