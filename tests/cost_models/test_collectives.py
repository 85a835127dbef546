"""Collective times: hand-computed values, and properties over clusters, meshes, axis sets and sizes."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from meshwright.cost_models.cluster import Cluster
from meshwright.cost_models.collectives import Collective, collective_time_s
from meshwright.cost_models.errors import InvalidMeshError
from meshwright.cost_models.mesh import LogicalMesh, candidate_meshes, group_levels

SPECS = (
    "cpu:8",
    "h100:2x8",
    "h100:8x8",
    "h100:3x4",
    "a100:4x4",
    "v5e:4x4",
    "v5e:16x16",
    "v5p:4x4x4",
    "v5e:4x4@2",
)
UNIFORM = ("cpu:8", "h100:8", "cpu:24", "cpu:64")
MESHES = {spec: candidate_meshes(Cluster.load(spec), 3) for spec in {*SPECS, *UNIFORM}}
KINDS = st.sampled_from(list(Collective))
BYTES = st.floats(min_value=1.0, max_value=1e13)


@st.composite
def situations(draw, specs=SPECS):
    mesh = draw(st.sampled_from(MESHES[draw(st.sampled_from(specs))]))
    axes = draw(st.sets(st.integers(0, len(mesh.shape) - 1), min_size=1))
    return mesh, tuple(axes)


def mesh_of(spec, *shape):
    return LogicalMesh(Cluster.load(spec), shape, tuple("abcdef"[: len(shape)]))


def with_hardware(mesh, **changes):
    hardware = replace(mesh.cluster.hardware, **changes)
    return replace(mesh, cluster=replace(mesh.cluster, hardware=hardware))


def no_latency(mesh):
    hw = mesh.cluster.hardware
    free = 1e-30
    return with_hardware(
        mesh,
        collective_floor_s=free,
        inner=replace(hw.inner, alpha_s=free),
        outer=replace(hw.outer, alpha_s=free),
    )


@given(KINDS, BYTES, situations())
def test_finite_and_positive(kind, size, situation):
    mesh, axes = situation
    seconds = collective_time_s(kind, size, axes, mesh)
    assert math.isfinite(seconds)
    assert seconds > 0


@given(KINDS, BYTES, BYTES, situations())
def test_monotone_in_bytes(kind, one, other, situation):
    mesh, axes = situation
    small, large = sorted((one, other))
    assert collective_time_s(kind, small, axes, mesh) <= collective_time_s(kind, large, axes, mesh)


@given(KINDS, BYTES, situations())
def test_faster_links_never_cost_more(kind, size, situation):
    mesh, axes = situation
    hw = mesh.cluster.hardware
    inner = replace(hw.inner, bandwidth=2 * hw.inner.bandwidth)
    outer = replace(hw.outer, bandwidth=2 * hw.outer.bandwidth)
    faster = with_hardware(mesh, inner=inner, outer=outer)
    assert collective_time_s(kind, size, axes, faster) <= collective_time_s(kind, size, axes, mesh)


@given(KINDS, situations())
def test_nothing_to_do_costs_nothing(kind, situation):
    mesh, axes = situation
    assert collective_time_s(kind, 0.0, axes, mesh) == 0.0
    assert collective_time_s(kind, 1e9, (), mesh) == 0.0


def test_axis_of_size_one_costs_nothing():
    for kind in Collective:
        assert collective_time_s(kind, 1e9, (1,), mesh_of("cpu:8", 8, 1)) == 0.0


@given(BYTES, situations())
def test_all_to_all_is_not_an_all_gather(size, situation):
    mesh, axes = situation
    bandwidth_only = no_latency(mesh)
    exchange = collective_time_s(Collective.ALL_TO_ALL, size, axes, bandwidth_only)
    gather = collective_time_s(Collective.ALL_GATHER, size, axes, bandwidth_only)
    spans = group_levels(mesh, axes).torus
    if len({(span.stride, span.wraps) for span in spans}) > 1:
        # The slowest cut of an uneven box bounds an exchange, while a gather uses all links at once.
        assert exchange != gather
    else:
        # On two devices half as many bytes move; on more, fewer still.
        assert exchange <= 0.5 * gather * (1 + 1e-9)


@given(KINDS, BYTES, situations())
def test_axis_order_and_names_do_not_matter(kind, size, situation):
    mesh, axes = situation
    renamed = replace(mesh, axis_names=tuple(f"x{name}" for name in mesh.axis_names))
    expected = collective_time_s(kind, size, axes, mesh)
    assert collective_time_s(kind, size, axes[::-1], mesh) == expected
    assert collective_time_s(kind, size, axes, renamed) == expected


@given(KINDS, BYTES, situations())
def test_size_one_axes_do_not_matter(kind, size, situation):
    mesh, axes = situation
    longer = LogicalMesh(mesh.cluster, (1, *mesh.shape), ("one", *mesh.axis_names))
    shifted = tuple(axis + 1 for axis in axes)
    expected = collective_time_s(kind, size, axes, mesh)
    assert collective_time_s(kind, size, shifted, longer) == expected
    assert collective_time_s(kind, size, (0, *shifted), longer) == expected


@given(KINDS, BYTES, st.sampled_from(("cpu:24", "h100:3x8", "v5p:2x2x4", "v5e:4x4@2")))
def test_all_axes_together_cost_the_same_in_every_mesh(kind, size, spec):
    meshes = candidate_meshes(Cluster.load(spec), 3)
    times = {collective_time_s(kind, size, tuple(range(len(mesh.shape))), mesh) for mesh in meshes}
    assert len(times) == 1


@given(BYTES, st.permutations(range(3)))
def test_permuted_mesh_on_a_uniform_link_costs_the_same(size, order):
    plain, permuted = mesh_of("cpu:24", 2, 3, 4), mesh_of("cpu:24", *((2, 3, 4)[axis] for axis in order))
    for kind in Collective:
        for position, axis in enumerate(order):
            expected = collective_time_s(kind, size, (axis,), plain)
            assert collective_time_s(kind, size, (position,), permuted) == expected


@given(BYTES, situations())
def test_all_reduce_is_at_most_reduce_scatter_and_all_gather(size, situation):
    mesh, axes = situation
    scatter = collective_time_s(Collective.REDUCE_SCATTER, size, axes, mesh)
    gather = collective_time_s(Collective.ALL_GATHER, size, axes, mesh)
    reduce = collective_time_s(Collective.ALL_REDUCE, size, axes, mesh)
    floor = mesh.cluster.hardware.collective_floor_s
    assert scatter == gather
    assert reduce <= (scatter + gather - floor) * (1 + 1e-9)
    if size > 1e9:  # so large that the ring wins: only the second start-up is saved
        assert math.isclose(reduce, scatter + gather - floor, rel_tol=1e-9)


@given(BYTES, situations(UNIFORM))
def test_joint_axes_never_cost_more_than_one_after_the_other(size, situation):
    mesh, axes = situation
    assume(len(axes) >= 2)
    first, rest = axes[:1], axes[1:]
    joint = collective_time_s(Collective.ALL_GATHER, size, axes, mesh)
    part = collective_time_s(Collective.ALL_GATHER, size / mesh.size(rest), first, mesh)
    assert joint <= (part + collective_time_s(Collective.ALL_GATHER, size, rest, mesh)) * (1 + 1e-9)


@given(KINDS, BYTES, situations())
def test_more_bytes_than_the_link_can_carry_is_impossible(kind, size, situation):
    mesh, axes = situation
    hw = mesh.cluster.hardware
    rank = hw.torus.rank if hw.torus else 1
    fastest = 2 * rank * hw.inner.bandwidth + hw.outer.bandwidth
    local = size / mesh.size(axes)
    least = local / 4 if kind in (Collective.ALL_TO_ALL, Collective.PERMUTE) else size / 2
    assert collective_time_s(kind, size, axes, mesh) >= least / fastest


def test_nvlink_all_gather_by_hand():
    # 8 x H100: 7/8 GB at 0.82 x 450 GB/s, 3 steps of 1.9 us, one start-up of 6.6 us.
    expected = 0.875e9 / (0.82 * 450e9) + 3 * 1.9e-6 + 6.6e-6
    assert math.isclose(collective_time_s(Collective.ALL_GATHER, 1e9, (0,), mesh_of("h100:8", 8)), expected)


def test_two_hosts_by_hand():
    # The NIC carries 1/8 of the bytes, half of it new; NVLink carries 7/8 and is the slower of the two.
    nic, nvlink = 1e9 / 8 / 2 / (0.9 * 50e9), 0.875e9 / (0.82 * 450e9)
    expected = max(nic, nvlink) + 3 * 1.9e-6 + 4e-6 + 6.6e-6
    assert math.isclose(
        collective_time_s(Collective.ALL_GATHER, 1e9, (0, 1), mesh_of("h100:2x8", 2, 8)), expected
    )


def test_one_device_a_host_pays_the_nic_in_full():
    expected = 0.5e9 / (0.9 * 50e9) + 4e-6 + 6.6e-6
    assert math.isclose(
        collective_time_s(Collective.ALL_GATHER, 1e9, (0,), mesh_of("h100:2x8", 2, 8)), expected
    )


def test_small_all_reduce_over_many_hosts_takes_the_tree():
    # 64 hosts: 2 x 6 tree steps, against 2 x 63 ring steps.
    seconds = collective_time_s(Collective.ALL_REDUCE, 64.0, (0,), mesh_of("h100:64x8", 64, 8))
    assert math.isclose(seconds, 6.6e-6 + 12 * 4e-6, rel_tol=1e-3)


def test_wrapped_ring_uses_both_directions():
    ring = collective_time_s(Collective.ALL_GATHER, 1e9, (0,), mesh_of("v5e:16x16", 16, 16))
    assert math.isclose(ring, 1e9 * 15 / 16 / 90e9 + 8e-6 + 1e-6)
    line = collective_time_s(Collective.ALL_GATHER, 1e9, (0,), mesh_of("v5e:4x4", 4, 4))
    assert math.isclose(line, 0.75e9 / 45e9 + 3e-6 + 1e-6)


def test_torus_dimensions_add_their_bandwidth():
    both = collective_time_s(Collective.ALL_GATHER, 1e9, (0, 1), mesh_of("v5e:16x16", 16, 16))
    assert math.isclose(both, 1e9 * 255 / 256 / 180e9 + 16e-6 + 1e-6)


def test_torus_all_to_all_is_a_quarter_of_an_all_gather():
    # "How To Scale Your Model", Sharded Matrices: a quarter of a bidirectional ring all-gather.
    seconds = collective_time_s(Collective.ALL_TO_ALL, 1e9, (0,), mesh_of("v5e:16x16", 16, 16))
    assert math.isclose(seconds, 1e9 / 4 / 90e9 + 8e-6 + 1e-6)


def test_pod_all_to_all_matches_the_documented_bisection():
    # v5e documentation: bisection 1.6 TB/s per Pod at peak rate; a quarter of the bytes crosses each way.
    mesh = no_latency(mesh_of("v5e:16x16", 256))
    seconds = collective_time_s(Collective.ALL_TO_ALL, 1e12, (0,), mesh)
    assert math.isclose(1e12 / 4 / seconds, 0.9 * 1.6e12, rel_tol=1e-6)


def test_strided_groups_share_links():
    mesh = no_latency(mesh_of("v5e:16x16", 16, 4, 4))
    near = collective_time_s(Collective.ALL_GATHER, 1e9, (2,), mesh)  # open line of neighbours
    far = collective_time_s(
        Collective.ALL_GATHER, 1e9, (1,), mesh
    )  # ring of stride 4: twice the links, a quarter each
    assert math.isclose(far, 2 * near)


def test_bad_input_is_refused():
    mesh = mesh_of("cpu:8", 8)
    with pytest.raises(ValueError, match="not negative"):
        collective_time_s(Collective.ALL_GATHER, -1.0, (0,), mesh)
    with pytest.raises(ValueError, match="finite"):
        collective_time_s(Collective.ALL_GATHER, math.nan, (0,), mesh)
    with pytest.raises(InvalidMeshError):
        collective_time_s(Collective.ALL_GATHER, 1.0, (3,), mesh)
