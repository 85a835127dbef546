"""Numbers, types and shardings as text."""

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.compiler.display.units import (
    device_bytes,
    format_bytes,
    format_percent,
    format_seconds,
    format_spec,
    format_type,
    itemsize_bytes,
    short_dtype,
    short_path,
    sparkline,
)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (2**30, "1 GiB"),
        (76_448_000_000, "71.2 GiB"),
        (2**60, "1024 PiB"),
    ],
)
def test_bytes(size_bytes, text):
    assert format_bytes(size_bytes) == text


@pytest.mark.parametrize(
    ("time_s", "text"),
    [(0, "0 s"), (2e-6, "2 us"), (0.0125, "12.5 ms"), (0.9996, "1 s"), (123.4, "123 s"), (3e-10, "0.3 ns")],
)
def test_seconds(time_s, text):
    assert format_seconds(time_s) == text


@pytest.mark.parametrize(
    ("fraction", "text"), [(0, "0 %"), (1e-5, "<0.1 %"), (0.0123, "1.2 %"), (0.0996, "10 %"), (0.5, "50 %")]
)
def test_percent(fraction, text):
    assert format_percent(fraction) == text


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ("float32", "f32"),
        ("bfloat16", "bf16"),
        ("uint8", "u8"),
        ("bool", "bool"),
        ("float8_e4m3fn", "f8_e4m3fn"),
    ],
)
def test_short_dtype(dtype, text):
    assert short_dtype(dtype) == text
    assert format_type(dtype, (2, 3)) == f"{text}[2,3]"


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint32", "float16", "bfloat16", "float32", "float64", "complex64", "float8_e5m2"],
)
def test_itemsize_is_numpys(dtype):
    assert itemsize_bytes(dtype) == jnp.dtype(dtype).itemsize


def test_itemsize_of_a_key_is_its_data():
    key = jax.random.key(0)
    assert itemsize_bytes(str(key.dtype)) == jax.random.key_data(key).nbytes


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ((), "replicated"),
        (((), ()), "replicated"),
        ((("data",), ()), "P('data')"),
        (((), ("model",)), "P(None, 'model')"),
        ((("data", "model"), (), ("x",)), "P(('data', 'model'), None, 'x')"),
    ],
)
def test_spec(spec, text):
    assert format_spec(spec) == text


def test_device_bytes_divides_by_the_axes_of_each_dim():
    assert device_bytes((64, 12), "bfloat16", (("data", "model"), ()), {"data": 4, "model": 2}) == 8 * 12 * 2
    assert device_bytes((), "float32", (), {"data": 4}) == 4


def test_sparkline_keeps_the_peak_and_the_width():
    line = sparkline([0.0] * 99 + [8.0], 10)
    assert line == "▁" * 9 + "█"
    assert sparkline([], 10) == "" == sparkline([0, 0], 10)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=300), st.integers(1, 80))
def test_sparkline_shows_every_stretch(values, width):
    line = sparkline(values, width)
    assert len(line) == (min(width, len(values)) if max(values) else 0)
    assert not line or "█" in line


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("state/params/w:f32[8,8]", "state/params/w:f32[8,8]"),
        ("state/params/block_0/up/kernel:f32[128,512]", "state/.../up/kernel:f32[128,512]"),
        ("a_single_name_of_a_very_long_argument:f32[8]", "a_single_name_of_a_very_long_argument:f32[8]"),
        ("x/" + "y" * 40, "x/" + "y" * 40),
    ],
)
def test_short_path_keeps_both_ends(path, text):
    assert short_path(path) == text
