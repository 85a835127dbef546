"""Sweeps: which points a cluster has, and that each can be run and priced."""

import itertools

import pytest

from meshwright.cost_models.calibration.points import CollectivePoint, ComputePoint, Operation, predicted_s
from meshwright.cost_models.calibration.sweep import sweep
from meshwright.cost_models.cluster import Cluster
from meshwright.cost_models.collectives import Collective

SPECS = ("cpu:1", "cpu:2", "cpu:6", "cpu:8", "h100:2x8", "h100:3x1", "v5e:4x4@2", "v5p:2x2x2", "b200:1")


def points(spec, quick=False):
    return list(itertools.chain(*sweep(Cluster.load(spec), quick=quick)))


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("spec", SPECS)
def test_series_rise_and_take_longer(spec, quick):
    cluster = Cluster.load(spec)
    for series in sweep(cluster, quick=quick):
        assert len({point.series for point in series}) == 1
        assert [p.size_bytes for p in series] == sorted({p.size_bytes for p in series})
        times = [predicted_s(point, cluster) for point in series]
        assert all(time > 0 for time in times)
        assert times == sorted(times)


@pytest.mark.parametrize("spec", SPECS)
def test_every_kind_is_measured(spec):
    found = points(spec)
    kinds = {point.kind for point in found if isinstance(point, CollectivePoint)}
    assert kinds == (set(Collective) if Cluster.load(spec).num_devices > 1 else set())
    assert {point.operation for point in found if isinstance(point, ComputePoint)} == set(Operation)


@pytest.mark.parametrize("spec", SPECS)
def test_collectives_divide_evenly(spec):
    for point in points(spec):
        if isinstance(point, CollectivePoint):
            assert point.full_bytes % (4 * point.group_size**2) == 0


def test_groups_are_all_devices_and_each_level():
    def groups(spec, quick=False):
        found = [p for p in points(spec, quick) if isinstance(p, CollectivePoint)]
        return {(p.mesh_shape, p.axes) for p in found}

    assert groups("h100:2x8") == {((16,), (0,)), ((2, 8), (0,)), ((2, 8), (1,))}
    assert groups("cpu:8") == {((8,), (0,)), ((2, 4), (0,)), ((2, 4), (1,))}
    assert groups("cpu:8", quick=True) == {((8,), (0,))}
    assert groups("cpu:2") == {((2,), (0,))}
    assert len(groups("v5e:4x4@2")) == 4


def test_quick_is_a_fraction():
    assert len(points("cpu:8", quick=True)) < len(points("cpu:8")) / 3
