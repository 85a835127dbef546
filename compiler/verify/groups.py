"""Which mesh axes a compiled collective runs over, from its groups of partitions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ..plan import MeshSpec

Groups = Sequence[Sequence[int]]


def axes_of_groups(groups: Groups, mesh: MeshSpec) -> tuple[str, ...] | None:
    """The axes whose members make these groups.

    Args:
        groups: partition numbers of each group; partitions count row-major over the mesh.
        mesh: the mesh.

    Returns:
        Axis names in mesh order, or None where the groups cut through an axis.
    """
    wanted = {frozenset(group) for group in groups}
    for count in range(1, len(mesh.shape) + 1):
        for axes in itertools.combinations(range(len(mesh.shape)), count):
            if wanted == set(map(frozenset, _groups(mesh.shape, axes))):
                return tuple(mesh.axis_names[a] for a in axes if mesh.shape[a] > 1)
    return None


def axes_of_pairs(pairs: Sequence[Sequence[int]], mesh: MeshSpec) -> tuple[str, ...]:
    """The axes along which a permute's source and target differ, in mesh order."""
    places = np.array(np.unravel_index(np.array(pairs), mesh.shape))
    differs = (places[..., 0] != places[..., 1]).any(axis=1)
    return tuple(name for name, moves in zip(mesh.axis_names, differs, strict=True) if moves)


def _groups(shape: tuple[int, ...], axes: tuple[int, ...]) -> list[list[int]]:
    rest = [a for a in range(len(shape)) if a not in axes]
    numbers = np.arange(np.prod(shape)).reshape(shape).transpose(*rest, *axes)
    size = int(np.prod([shape[a] for a in axes]))
    return numbers.reshape(-1, size).tolist()
