"""Logical meshes, the links their groups use, and which shapes are worth searching."""

import math

import pytest

from meshwright.cost_models.cluster import Cluster
from meshwright.cost_models.errors import InvalidMeshError
from meshwright.cost_models.mesh import GroupLevels, LogicalMesh, TorusSpan, candidate_meshes, group_levels


def mesh_of(spec, *shape):
    return LogicalMesh(Cluster.load(spec), shape, tuple("abcdef"[: len(shape)]))


def shapes(spec, max_axes=3):
    return [mesh.shape for mesh in candidate_meshes(Cluster.load(spec), max_axes)]


@pytest.mark.parametrize(
    ("shape", "names", "message"),
    [
        ((2, 2), ("a", "b"), "multiply to 4 but cpu:8 has 8"),
        ((2, 4), ("a", "a"), "distinct"),
        ((2, 4), ("a",), "2 sizes but 1 names"),
        ((-2, -4), ("a", "b"), "at least one device"),
        ((2.0, 4.0), ("a", "b"), r"the size 2\.0 is no whole number"),
        ((8,), (0,), "the axis name 0 is no text"),
        ((), (), "at least one axis"),
    ],
)
def test_invalid_meshes(shape, names, message):
    with pytest.raises(InvalidMeshError, match=message):
        LogicalMesh(Cluster.load("cpu:8"), shape, names)


@pytest.mark.parametrize(
    ("spec", "shape", "suggested"),
    [
        ("cpu:8", (3, 3), "try 2x4, 4x2, 8, 2x2x2."),
        ("cpu:8", (3,), "try 8, 2x4, 4x2, 2x2x2."),
        ("h100:8x8", (7, 7), "try 8x8, 4x16, 16x4, 2x32."),
        ("cpu:16", (3, 2, 2, 2), "try 2x2x2x2, 16, 4x4, 2x8."),
        ("cpu:7", (2, 3), "try 7."),
        ("cpu:1", (2,), "try 1."),
    ],
)
def test_a_wrong_product_names_shapes_that_fit(spec, shape, suggested):
    with pytest.raises(InvalidMeshError) as raised:
        mesh_of(spec, *shape)
    assert str(raised.value).startswith(f"Mesh {'x'.join(map(str, shape))} (a")
    assert str(raised.value).endswith(suggested)


def test_sizes():
    mesh = LogicalMesh(Cluster.load("cpu:8"), (2, 4), ("data", "model"))
    assert (mesh.axis_size("model"), mesh.size((0, 1)), mesh.size(())) == (4, 8, 1)
    assert str(mesh) == "cpu:8[data=2, model=4]"
    with pytest.raises(InvalidMeshError, match="expert"):
        mesh.axis_size("expert")
    with pytest.raises(InvalidMeshError, match="not all in the mesh"):
        group_levels(mesh, (2,))


def test_host_levels():
    mesh = mesh_of("h100:2x8", 2, 8)
    assert group_levels(mesh, (0,)) == GroupLevels(2, inner=1, outer=2)
    assert group_levels(mesh, (1,)) == GroupLevels(8, inner=8, outer=1)
    assert group_levels(mesh, (1, 0, 0)) == GroupLevels(16, inner=8, outer=2)
    assert group_levels(mesh, ()) == GroupLevels(1, inner=1, outer=1)
    assert group_levels(mesh_of("h100:2x8", 8, 2), (0,)) == GroupLevels(8, inner=4, outer=2)


def test_groups_that_straddle_hosts_count_as_crossing():
    # 24 devices in hosts of 8: groups 0-11 and 12-23 both reach two hosts.
    assert group_levels(mesh_of("h100:3x8", 2, 12), (1,)) == GroupLevels(12, inner=6, outer=2)


def test_torus_spans():
    ring = TorusSpan(16, 1, wraps=True)
    mesh = mesh_of("v5e:16x16", 16, 16)
    assert group_levels(mesh, (0,)).torus == (ring,)
    assert group_levels(mesh, (0, 1)).torus == (ring, ring)
    assert group_levels(mesh_of("v5e:4x4", 4, 4), (0,)).torus == (TorusSpan(4, 1, wraps=False),)
    assert group_levels(mesh_of("v5p:4x4x4", 4, 16), (0,)).torus == (TorusSpan(4, 1, wraps=True),)


def test_part_of_a_dimension_is_strided_or_open():
    mesh = mesh_of("v5p:8x8x8", 8, 8, 2, 4)
    assert group_levels(mesh, (2,)).torus == (TorusSpan(2, 4, wraps=True),)
    assert group_levels(mesh, (3,)).torus == (TorusSpan(4, 1, wraps=False),)
    assert group_levels(mesh, (2, 3)).torus == (TorusSpan(8, 1, wraps=True),)


def test_slices_are_the_outer_level():
    mesh = mesh_of("v5e:4x4@2", 2, 16)
    assert group_levels(mesh, (0,)) == GroupLevels(2, inner=1, outer=2)
    assert group_levels(mesh, (1,)).outer == 1
    assert group_levels(mesh, (0, 1)).inner == 16


def test_groups_that_are_no_box_are_one_open_line():
    # Eight consecutive chips of rows of twelve: some groups turn into the next row.
    mesh = mesh_of("v5p:12x12x12", 216, 8)
    assert group_levels(mesh, (1,)).torus == (TorusSpan(8, 1, wraps=False),)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("cpu:1", [(1,)]),
        ("cpu:7", [(7,)]),
        ("cpu:8", [(8,), (2, 4), (2, 2, 2)]),
        ("cpu:12", [(12,), (2, 6), (3, 4), (2, 2, 3)]),
        ("h100:2x8", [(16,), (2, 8), (4, 4), (8, 2), (2, 2, 4), (4, 2, 2)]),
        ("v5e:2x2", [(4,), (2, 2)]),
    ],
)
def test_candidates(spec, expected):
    # h100:2x8 keeps (2, 2, 4), not (2, 4, 2): axis 0 crosses hosts, the others are interchangeable.
    assert shapes(spec) == expected


def test_candidates_respect_max_axes_and_names():
    assert shapes("cpu:8", 1) == [(8,)]
    assert shapes("cpu:8", 2) == [(8,), (2, 4)]
    names = [mesh.axis_names for mesh in candidate_meshes(Cluster.load("cpu:16"), 4)]
    assert {len(n): n for n in names}[3] == ("data", "model", "expert")
    assert {len(n): n for n in names}[4] == ("data", "model", "expert", "axis3")
    with pytest.raises(InvalidMeshError, match="at least one axis"):
        candidate_meshes(Cluster.load("cpu:8"), 0)


def test_candidates_are_valid_and_deterministic():
    cluster = Cluster.load("v5p:4x4x8")
    meshes = candidate_meshes(cluster, 3)
    assert meshes == candidate_meshes(cluster, 3)
    assert len(set(meshes)) == len(meshes)
    assert all(math.prod(mesh.shape) == 128 and min(mesh.shape) >= 2 for mesh in meshes)
