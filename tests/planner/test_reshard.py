"""Reshards: hand-counted steps, prices of every pair of layouts, and bytes against what devices lack."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from meshwright.compiler.ir import TensorType
from meshwright.compiler.planner.edges import EdgeTable
from meshwright.compiler.planner.layout import Layout, enumerate_layouts, replicated
from meshwright.compiler.planner.reshard import (
    Step,
    copy_bytes_matrix,
    reshard_stages,
    reshard_steps,
    reshard_time_s,
)
from meshwright.cost_models.cluster import Cluster
from meshwright.cost_models.collectives import Collective, collective_time_s
from meshwright.cost_models.mesh import LogicalMesh
from tests.planner.layouts import layouts_with_partial, missing_bytes

MESH = (2, 4)
TYPE = TensorType((16, 8), "float32", 4)  # 512 bytes
SHAPES = {0: (), 1: (64,), 2: (64, 32), 3: (16, 16, 8)}
CLUSTERS = ("cpu:8", "h100:1x8", "h100:2x4", "v5e:2x4")

R = replicated(2)
X0, X1 = Layout(((0,), ())), Layout(((), (0,)))
Y0, Y1 = Layout(((1,), ())), Layout(((), (1,)))
XY0, YX0 = Layout(((0, 1), ())), Layout(((1, 0), ()))
X0Y1, Y0X1 = Layout(((0,), (1,))), Layout(((1,), (0,)))


def pending(*axes: int) -> Layout:
    return Layout(((), ()), axes)


def mesh_of(cluster: str) -> LogicalMesh:
    return LogicalMesh(Cluster.load(cluster), MESH, ("data", "model"))


AG, RS = Collective.ALL_GATHER, Collective.REDUCE_SCATTER
AR, A2A, CP = Collective.ALL_REDUCE, Collective.ALL_TO_ALL, Collective.PERMUTE


@pytest.mark.parametrize(
    ("source", "target", "steps"),
    [
        (R, R, ()),
        (R, X0, ()),
        (R, XY0, ()),
        (X0, X0Y1, ()),
        (X0, R, (Step(AG, (0,), 512),)),
        (XY0, R, (Step(AG, (0, 1), 512),)),
        (XY0, X0, (Step(AG, (1,), 256),)),
        (X0Y1, Y1, (Step(AG, (0,), 128),)),
        (pending(0), R, (Step(AR, (0,), 512),)),
        (pending(0, 1), R, (Step(AR, (0, 1), 512),)),
        (pending(0, 1), pending(1), (Step(AR, (0,), 512),)),
        (pending(0), X0, (Step(RS, (0,), 512),)),
        (pending(0, 1), X0Y1, (Step(RS, (0, 1), 512),)),
        # The slice along the other axis comes first, for nothing.
        (pending(0), X0Y1, (Step(RS, (0,), 128),)),
        (pending(0), Y0, (Step(AR, (0,), 128),)),
        (pending(0, 1), X0, (Step(RS, (0,), 512), Step(AR, (1,), 256))),
        (Layout(((1,), ()), (0,)), R, (Step(AR, (0,), 128), Step(AG, (1,), 512))),
        (X0, X1, (Step(A2A, (0,), 512),)),
        (X0Y1, Layout(((0, 1), ())), (Step(A2A, (1,), 256),)),
        # The new axis comes in as the minor one, so the parts left behind stand in another order.
        (X0, Y0X1, (Step(A2A, (0,), 128), Step(CP, (0, 1), 512))),
        (X0, Layout(((), (1, 0))), (Step(A2A, (0,), 128),)),
        (X0Y1, Layout(((), (1, 0))), (Step(A2A, (0,), 128),)),
        (X0Y1, X1, (Step(A2A, (0,), 128), Step(CP, (0, 1), 512), Step(AG, (1,), 256))),
    ],
)
def test_steps_counted_by_hand(source: Layout, target: Layout, steps: tuple[Step, ...]) -> None:
    assert reshard_steps(TYPE, source, target, MESH) == steps


@pytest.mark.parametrize(
    ("source", "target", "kinds"),
    [
        (XY0, YX0, [CP]),
        # Gathering the major axis leaves the minor one's parts in another order.
        (XY0, Y0, [CP, AG]),
        (YX0, Y0, [AG]),
        (XY0, X0, [AG]),
    ],
)
def test_axes_in_another_order_are_permuted(source: Layout, target: Layout, kinds: list[Collective]) -> None:
    steps = reshard_steps(TYPE, source, target, MESH)
    assert steps is not None
    assert [s.kind for s in steps] == kinds


@pytest.mark.parametrize("source", [R, X0, pending(1)])
def test_nothing_turns_into_a_pending_sum(source: Layout) -> None:
    assert reshard_steps(TYPE, source, pending(0), MESH) is None
    assert reshard_time_s(TYPE, source, pending(0), mesh_of("cpu:8")) == math.inf


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_prices_of_all_pairs(cluster: str, rank: int) -> None:
    mesh = mesh_of(cluster)
    type_ = TensorType(SHAPES[rank], "float32", 4)
    for source, target in itertools.product(layouts_with_partial(rank), repeat=2):
        seconds = reshard_time_s(type_, source, target, mesh)
        assert seconds >= 0
        assert math.isfinite(seconds) == (set(target.partial) <= set(source.partial))
        if source == target:
            assert seconds == 0


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_slices_are_free_and_gathers_are_not(rank: int) -> None:
    type_ = TensorType(SHAPES[rank], "float32", 4)
    mesh = mesh_of("h100:2x4")
    for layout in enumerate_layouts(SHAPES[rank], MESH)[1:]:
        assert reshard_time_s(type_, replicated(rank), layout, mesh) == 0
        assert reshard_time_s(type_, layout, replicated(rank), mesh) > 0


def test_padded_parts_of_other_sizes_begin_elsewhere() -> None:
    coarse, fine = Layout(((0,),)), Layout(((0, 1),))
    even, uneven = TensorType((32,), "float32", 4), TensorType((30,), "float32", 4)
    assert reshard_steps(even, coarse, fine, (2, 4)) == ()
    assert [s.kind for s in reshard_steps(uneven, coarse, fine, (2, 4)) or ()] == [Collective.PERMUTE]
    assert reshard_steps(uneven, replicated(1), fine, (2, 4)) == ()


def test_a_sum_into_padded_parts_is_made_whole_first() -> None:
    pending, target = Layout(((), ()), (0,)), Layout(((0,), ()))
    uneven, even = TensorType((30, 4), "float32", 4), TensorType((32, 4), "float32", 4)
    assert [s.kind for s in reshard_steps(uneven, pending, target, (8,)) or ()] == [Collective.ALL_REDUCE]
    assert [s.kind for s in reshard_steps(even, pending, target, (8,)) or ()] == [Collective.REDUCE_SCATTER]
    assert reshard_stages((30, 4), pending, target, (8,)) == (replicated(2), target)


_RECEIVED = {
    Collective.ALL_GATHER: lambda full, n: full * (n - 1) / n,
    Collective.REDUCE_SCATTER: lambda full, n: full * (n - 1) / n,
    Collective.ALL_REDUCE: lambda full, n: 2 * full * (n - 1) / n,
    Collective.ALL_TO_ALL: lambda full, n: full / n * (n - 1) / n,
    Collective.PERMUTE: lambda full, n: full / n,
}


def _permutes(steps: tuple[Step, ...] | None) -> bool:
    """Whether devices exchange whole parts: some receive all of theirs, others none."""
    return steps is not None and any(s.kind is Collective.PERMUTE for s in steps)


def _received_bytes(steps: tuple[Step, ...]) -> float:
    sizes = [math.prod(MESH[a] for a in s.axes) for s in steps]
    return sum(_RECEIVED[s.kind](s.full_bytes, n) for s, n in zip(steps, sizes, strict=True))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_steps_move_at_least_what_devices_lack(rank: int) -> None:
    """Blocks simulated on all devices: no step list may move fewer bytes than are missing somewhere."""
    shape = SHAPES[rank]
    type_ = TensorType(shape, "float32", 4)
    whole = enumerate_layouts(shape, MESH)
    for source, target in itertools.product(whole, repeat=2):
        steps = reshard_steps(type_, source, target, MESH)
        assert steps is not None
        if not _permutes(steps):
            assert _received_bytes(steps) >= missing_bytes(source, target, shape, 4, MESH), (source, target)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_steps_are_empty_only_where_nothing_is_lacking(rank: int) -> None:
    shape = SHAPES[rank]
    type_ = TensorType(shape, "float32", 4)
    layouts = [x for x in layouts_with_partial(rank) if not x.partial]
    for source, target in itertools.product(layouts, repeat=2):
        lacking = missing_bytes(source, target, shape, 4, MESH)
        assert (reshard_steps(type_, source, target, MESH) == ()) == (lacking == 0), (source, target)


@pytest.mark.parametrize("cluster", ["cpu:8", "h100:1x8"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_detour_is_never_cheaper(cluster: str, rank: int) -> None:
    """Triangle inequality between split layouts, on one level of links and where bytes outweigh latency.

    Steps that end in a permute are left out: their order is fixed, and another one may move less.
    """
    mesh = mesh_of(cluster)
    type_ = TensorType(SHAPES[rank], "float32", 4 * 2**14)
    layouts = enumerate_layouts(SHAPES[rank], MESH)
    times = np.array([[reshard_time_s(type_, s, t, mesh) for t in layouts] for s in layouts])
    steps = [[reshard_steps(type_, s, t, MESH) for t in layouts] for s in layouts]
    ordered = np.array([[not _permutes(found) for found in row] for row in steps])
    for via in range(len(layouts)):
        detour = times[:, via, None] + times[None, via, :]
        cheaper = ordered & (times > 1.05 * detour + 1e-9)
        found = [(layouts[i], layouts[via], layouts[j]) for i, j in np.argwhere(cheaper)]
        assert not found, found[0]


def test_time_is_the_sum_of_the_steps() -> None:
    mesh = mesh_of("h100:2x4")
    steps = reshard_steps(TYPE, pending(0, 1), X0, MESH)
    assert steps is not None
    expected = sum(collective_time_s(s.kind, s.full_bytes, s.axes, mesh) for s in steps)
    assert reshard_time_s(TYPE, pending(0, 1), X0, mesh) == pytest.approx(expected)


def test_axes_of_size_one_cost_nothing() -> None:
    mesh = LogicalMesh(Cluster.load("cpu:8"), (1, 8), ("data", "model"))
    assert reshard_time_s(TYPE, X0, R, mesh) == 0


@pytest.mark.parametrize("rank", [1, 2])
def test_copies_are_made_where_something_is_communicated(rank: int) -> None:
    type_ = TensorType(SHAPES[rank], "float32", 4)
    layouts = layouts_with_partial(rank)
    copies = copy_bytes_matrix(type_, layouts, layouts, MESH)
    for i, j in np.ndindex(copies.shape):
        steps = reshard_steps(type_, layouts[i], layouts[j], MESH)
        if steps is not None:
            expected = layouts[j].local_bytes(type_, MESH) if steps else 0
            assert copies[i, j] == expected, (layouts[i], layouts[j])


def test_copies_take_the_targets_bytes() -> None:
    copies = copy_bytes_matrix(TYPE, [X0, R], [R, X0, Y1], MESH)
    assert copies[0].tolist() == [512, 0, 128]
    assert copies[1, 0] == 0


def test_edge_table_agrees_with_single_prices_and_shares_matrices() -> None:
    mesh = mesh_of("h100:2x4")
    table = EdgeTable(mesh)
    sources, targets = table.intern([R, X0, pending(0)]), table.intern([R, X0Y1])
    cost = table.cost(TYPE, sources, targets, 3.0)
    assert cost.shape == (3, 2)
    for i, j in np.ndindex(3, 2):
        assert cost[i, j] == pytest.approx(3.0 * reshard_time_s(TYPE, sources[i], targets[j], mesh))
    again = table.cost(TYPE, table.intern([R, X0, pending(0)]), table.intern([R, X0Y1]), 3.0)
    assert again is cost
    np.testing.assert_array_equal(
        table.copies(TYPE, sources, targets), copy_bytes_matrix(TYPE, sources, targets, MESH)
    )
