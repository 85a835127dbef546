"""Roofline times and tile utilisation."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.cost_models.compute import OpCost, OpKind, compute_time_s, matmul_efficiency
from meshwright.cost_models.hardware_record import hardware_names, load_hardware

HARDWARE = st.sampled_from([load_hardware(name) for name in hardware_names()])
KINDS = st.sampled_from(list(OpKind))
DTYPES = st.sampled_from(
    ["float64", "float32", "bfloat16", "float16", "float8_e5m2", "int8", "int32", "bool"]
)
WORK = st.floats(min_value=0.0, max_value=1e18)
SIZES = st.integers(1, 5000)


@given(HARDWARE, KINDS, DTYPES, WORK, WORK, st.booleans())
def test_finite_and_at_least_the_floor(hardware, kind, dtype, flops, size, fused):
    seconds = compute_time_s(OpCost(flops, size, dtype, kind), hardware, fused=fused)
    assert math.isfinite(seconds)
    assert seconds >= (0.0 if fused or flops == size == 0 else hardware.kernel_floor_s)


@given(HARDWARE, KINDS, DTYPES, WORK, WORK, WORK, WORK)
def test_monotone_in_work(hardware, kind, dtype, flops, size, more_flops, more_bytes):
    less = compute_time_s(OpCost(flops, size, dtype, kind), hardware)
    more = compute_time_s(OpCost(flops + more_flops, size + more_bytes, dtype, kind), hardware)
    assert less <= more


def test_compute_bound_matmul_by_hand():
    h100 = load_hardware("h100")
    size = 8192
    cost = OpCost(2.0 * size**3, 3 * 2.0 * size**2, "bfloat16", OpKind.MATMUL)
    assert math.isclose(compute_time_s(cost, h100), 2 * size**3 / (0.75 * 989.5e12) + 2e-6)
    assert math.isclose(compute_time_s(cost, h100, fused=True), 2 * size**3 / (0.75 * 989.5e12))
    half = compute_time_s(cost, h100, fused=True, tile_utilisation=0.5)
    assert math.isclose(half, 2 * compute_time_s(cost, h100, fused=True))


def test_memory_bound_elementwise_by_hand():
    v5e = load_hardware("v5e")
    cost = OpCost(1e8, 1.2e9, "float32", OpKind.ELEMENTWISE)
    assert math.isclose(compute_time_s(cost, v5e, fused=True), 1.2e9 / (0.85 * 819e9))
    # Tile padding is a matter of the matrix unit alone.
    assert compute_time_s(cost, v5e, tile_utilisation=0.1) == compute_time_s(cost, v5e)


def test_no_work_is_free():
    assert compute_time_s(OpCost(0, 0, "float32", OpKind.DATA_MOVEMENT), load_hardware("h100")) == 0.0


@given(HARDWARE, SIZES, SIZES, SIZES)
def test_tile_utilisation_is_a_fraction_symmetric_in_m_and_n(hardware, m, n, k):
    used = matmul_efficiency(m, n, k, hardware)
    assert 0 < used <= 1
    assert used == matmul_efficiency(n, m, k, hardware)


def test_tile_utilisation_by_hand():
    v5e = load_hardware("v5e")
    assert matmul_efficiency(1024, 1024, 1024, v5e) == 1.0
    assert matmul_efficiency(8, 128, 64, v5e) == 0.5
    assert matmul_efficiency(8, 129, 128, v5e) == 129 / 256
    assert matmul_efficiency(1, 128, 128, v5e) == 1 / 8


@pytest.mark.parametrize("flops", [-1.0, math.inf, math.nan])
def test_impossible_work_is_refused(flops):
    with pytest.raises(ValueError, match="flops"):
        OpCost(flops, 1.0, "float32", OpKind.MATMUL)


def test_bad_arguments_are_refused():
    h100 = load_hardware("h100")
    with pytest.raises(ValueError, match="at least 1"):
        matmul_efficiency(0, 1, 1, h100)
    with pytest.raises(ValueError, match="tile_utilisation"):
        compute_time_s(OpCost(1, 1, "float32", OpKind.MATMUL), h100, tile_utilisation=0.0)
