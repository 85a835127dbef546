"""Fits find the numbers that made the measurements, whatever the base record says and some outliers do."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwright.cost_models.calibration.collective_fit import fit_collectives
from meshwright.cost_models.calibration.comparison import compare
from meshwright.cost_models.calibration.fit import fitted_numbers
from meshwright.cost_models.calibration.points import CollectivePoint, ComputePoint
from meshwright.cost_models.calibration.regression import robust_fit
from meshwright.cost_models.cluster import Cluster

from . import synthetic

COMPUTE = {
    "kernel.floor_s": 3.7e-6,
    "efficiency.matmul": 0.52,
    "efficiency.vector": 0.31,
    "efficiency.memory": 0.66,
}
INNER = {"kernel.collective_floor_s": 9e-6, "link.inner.alpha_s": 3e-6, "link.inner.efficiency": 0.6}
OUTER = {"link.outer.alpha_s": 9e-6, "link.outer.efficiency": 0.5}
TRUTH = COMPUTE | INNER | OUTER
ONE_HOST = ("cpu:8", "cpu:6", "h100:8", "v5e:4x4")
SEVERAL = ("h100:2x8", "h100:3x4", "v5e:4x4@2")


def flat(series):
    return list(itertools.chain(*series))


def assert_recovers(fitted, truth, within):
    off = {key: fitted[key] / value - 1 for key, value in truth.items()}
    assert all(abs(error) < within for error in off.values()), off


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("spec", ONE_HOST)
def test_one_host_is_recovered_within_ten_percent(spec, quick):
    base = Cluster.load(spec)
    series = synthetic.measured(synthetic.with_numbers(base, TRUTH), quick=quick)
    fitted = fitted_numbers(flat(series), base)
    assert_recovers(fitted, COMPUTE | INNER, 0.1)
    assert not fitted.keys() & OUTER.keys()


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("spec", SEVERAL)
def test_links_between_hosts_are_recovered_within_ten_percent(spec, quick):
    base = Cluster.load(spec)
    series = synthetic.measured(synthetic.with_numbers(base, TRUTH), quick=quick)
    assert_recovers(fitted_numbers(flat(series), base), TRUTH, 0.1)


def test_each_element_type_has_its_own_rate():
    base = Cluster.load("h100:8")
    peaks = {"peak_flops.f32": 5e13, "peak_flops.f32_default": 3e14, "peak_flops.bf16": 6e14}
    truth = synthetic.with_numbers(base, COMPUTE | peaks | {"peak_flops.f16": 7e14})
    fitted = fitted_numbers(flat(synthetic.measured(truth)), base)
    rates = {key: fitted[key] * fitted["efficiency.matmul"] for key in peaks}
    assert_recovers(rates, {key: peak * 0.52 for key, peak in peaks.items()}, 0.1)


def test_more_than_the_peak_raises_the_peak():
    base = Cluster.load("cpu:8")
    truth = synthetic.with_numbers(base, {"memory.bandwidth": 9e10, "link.inner.bandwidth": 4e10})
    fitted = fitted_numbers(flat(synthetic.measured(truth)), base)
    assert fitted["efficiency.memory"] == fitted["link.inner.efficiency"] == 1.0
    assert_recovers(fitted, {"memory.bandwidth": 0.8 * 9e10, "link.inner.bandwidth": 0.8 * 4e10}, 0.1)


def test_one_device_keeps_the_links():
    base = Cluster.load("cpu:1")
    fitted = fitted_numbers(flat(synthetic.measured(base)), base)
    assert fitted.keys() >= COMPUTE.keys()
    assert not any(key.startswith(("link", "kernel.collective")) for key in fitted)


def test_nothing_measured_fits_nothing():
    assert fitted_numbers([], Cluster.load("cpu:8")) == {}


@settings(max_examples=25)
@given(st.data())
def test_a_disturbed_size_in_every_series_changes_little(data):
    """Of each series one size, other work on the machine having made it up to fifty times slower."""
    base = Cluster.load("cpu:8")
    series = synthetic.measured(synthetic.with_numbers(base, TRUTH), seed=data.draw(st.integers(0, 5)))
    disturbed = []
    for points in series:
        place = data.draw(st.integers(0, len(points) - 1))
        slower = replace(points[place], seconds=points[place].seconds * data.draw(st.floats(1, 50)))
        disturbed += [*points[:place], slower, *points[place + 1 :]]
    assert_recovers(fitted_numbers(disturbed, base), COMPUTE | INNER, 0.25)


@given(
    st.lists(st.floats(1e-6, 1e-2), min_size=2, max_size=2),
    st.lists(st.floats(1.0, 1e3), min_size=3, max_size=3),
)
def test_a_line_is_found_behind_outliers(truth, factors):
    sizes = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0])
    features = np.stack([np.ones_like(sizes), sizes], axis=1)
    seconds = features @ np.array(truth)
    seconds[[1, 5, 8]] *= factors
    fitted = robust_fit(features, seconds, np.zeros(len(sizes)), np.zeros(2))
    # Which is all that the fit promises: the predictions, as a constant may be lost beside a slope.
    kept = [0, 2, 3, 4, 6, 7, 9, 10]
    assert np.allclose((features @ fitted)[kept], (features @ np.array(truth))[kept], rtol=1e-3)


def test_least_values_hold():
    features, seconds = np.array([[1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 3.0])
    fitted = robust_fit(features, seconds, np.zeros(2), np.array([0.5, 0.0]))
    assert fitted[0] >= 0.5


def test_a_calibrated_record_predicts_what_was_measured():
    base = Cluster.load("h100:2x8")
    measurements = flat(synthetic.measured(synthetic.with_numbers(base, TRUTH)))
    before = compare(measurements, base)
    after = compare(measurements, synthetic.with_numbers(base, fitted_numbers(measurements, base)))
    assert math.isclose(after.median_ratio, 1.0, abs_tol=0.05)
    assert abs(math.log(after.worst_ratio)) < 0.2 < abs(math.log(before.worst_ratio))
    assert after.worst in after.points


def test_small_kernels_timed_with_a_collective_are_not_its_own():
    base = Cluster.load("h100:8")
    slow = synthetic.with_numbers(base, {"kernel.floor_s": 1e-3})
    fitted = fit_collectives(flat(synthetic.measured(slow, noise=0.0)), slow)
    assert fitted["kernel.collective_floor_s"] == pytest.approx(base.hardware.collective_floor_s, rel=1e-3)


def test_points_are_named_by_operation_and_group():
    assert ComputePoint("matmul", "bf16", 128).series == "matmul bf16"
    assert CollectivePoint("all-reduce", 4096, (2, 4), (1,)).series == "all-reduce (2)x4"
