"""Groups of partitions as mesh axes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from meshwright.compiler.plan import MeshSpec
from meshwright.compiler.verify.groups import axes_of_groups, axes_of_pairs

MESH = MeshSpec((2, 3, 4), ("a", "b", "c"))


@pytest.mark.parametrize("axes", [a for n in (1, 2, 3) for a in itertools.combinations("abc", n)])
def test_groups_along_axes_are_found(axes: tuple[str, ...]) -> None:
    moved = [MESH.axis_names.index(a) for a in axes]
    rest = [i for i in range(3) if i not in moved]
    size = int(np.prod([MESH.shape[i] for i in moved]))
    groups = np.arange(24).reshape(MESH.shape).transpose(*rest, *moved).reshape(-1, size)
    shuffled = np.random.default_rng(0).permuted(groups, axis=1)[::-1]
    assert axes_of_groups(shuffled.tolist(), MESH) == axes


def test_groups_that_cut_an_axis_have_no_axes() -> None:
    assert axes_of_groups([[0, 1], [2, 3]], MeshSpec((4,), ("a",))) is None


def test_an_axis_of_one_device_is_no_part_of_a_group() -> None:
    assert axes_of_groups([[0, 1]], MeshSpec((1, 2), ("a", "b"))) == ("b",)


@pytest.mark.parametrize(
    ("pairs", "axes"),
    [
        ([(0, 1), (1, 0)], ("c",)),
        ([(0, 4), (4, 0)], ("b",)),
        ([(0, 16), (16, 0)], ("a", "b")),
        ([(3, 3)], ()),
    ],
)
def test_axes_of_a_permute(pairs: list[tuple[int, int]], axes: tuple[str, ...]) -> None:
    assert axes_of_pairs(pairs, MESH) == axes
