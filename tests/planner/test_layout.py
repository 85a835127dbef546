"""Layouts: what they hold, how they print, and that the enumeration is complete and even."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.compiler.ir import TensorType
from meshwright.compiler.planner.layout import Layout, enumerate_layouts, replicated
from tests.planner.layouts import block

MESH = (2, 4)
SHAPES = st.lists(st.sampled_from([1, 2, 4, 6, 8, 16]), max_size=3).map(tuple)


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (Layout(((), ())), "replicated"),
        (Layout(((0,), ())), "[data, -]"),
        (Layout(((1, 0), ())), "[model*data, -]"),
        (Layout(((), (1,)), (0,)), "[-, model] +data"),
        (Layout((), (0, 1)), "[] +data +model"),
        (Layout(()), "replicated"),
    ],
)
def test_text(layout: Layout, text: str) -> None:
    assert layout.format(("data", "model")) == text


def test_local_bytes_divide_by_split_axes_only() -> None:
    type_ = TensorType((8, 4), "float32", 4)
    assert replicated(2).local_bytes(type_, MESH) == 128
    assert Layout(((0,), (1,))).local_bytes(type_, MESH) == 16
    assert Layout(((), ()), (0, 1)).local_bytes(type_, MESH) == 128
    assert Layout(((), (0,)), (1,)).local_bytes(type_, MESH) == 64


def test_axes_used() -> None:
    layout = Layout(((1,), ()), (0,))
    assert layout.split_axes == (1,)
    assert layout.used_axes == {0, 1}
    assert layout.num_shards(MESH) == 4


def test_stacking_adds_an_unsplit_dim() -> None:
    assert Layout(((0,),), (1,)).with_leading_dim() == Layout(((), (0,)), (1,))


def test_enumeration_of_a_matrix() -> None:
    found = enumerate_layouts((8, 8), MESH)
    assert found[0] == replicated(2)
    # Each of two axes splits one of two dims or none.
    assert len(found) == 9
    assert Layout(((0, 1), ())) in found


def test_uneven_splits_are_left_out() -> None:
    found = enumerate_layouts((6,), MESH)
    assert set(found) == {replicated(1), Layout(((0,),))}
    assert enumerate_layouts((3, 5), MESH) == (replicated(2),)


def test_axes_of_size_one_are_never_used() -> None:
    assert enumerate_layouts((8,), (1, 4)) == (replicated(1), Layout(((1,),)))
    assert enumerate_layouts((8,), (1, 1)) == (replicated(1),)


def test_scalars_have_one_layout() -> None:
    assert enumerate_layouts((), MESH) == (replicated(0),)


@given(SHAPES)
def test_enumerated_layouts_are_even_and_distinct(shape: tuple[int, ...]) -> None:
    found = enumerate_layouts(shape, MESH)
    assert len(set(found)) == len(found)
    assert found[0] == replicated(len(shape))
    type_ = TensorType(shape, "float32", 4)
    for layout in found:
        held = block(layout, shape, MESH, (0, 0))
        assert layout.local_bytes(type_, MESH) == held.sum() * 4
        assert len(set(layout.split_axes)) == len(layout.split_axes)


@given(SHAPES)
def test_enumeration_is_complete(shape: tuple[int, ...]) -> None:
    choices = np.ndindex(*[len(shape) + 1] * len(MESH))
    even = 0
    for chosen in choices:
        parts = [math.prod(n for n, c in zip(MESH, chosen, strict=True) if c == d) for d in range(len(shape))]
        even += all(size % n == 0 for size, n in zip(shape, parts, strict=True))
    assert len(enumerate_layouts(shape, MESH)) == even


def test_blocks_of_a_layout_tile_the_value() -> None:
    for layout in enumerate_layouts((8, 16), MESH):
        total = sum(block(layout, (8, 16), MESH, d).astype(int) for d in np.ndindex(*MESH))
        assert (total == 8 // layout.num_shards(MESH)).all()


def test_padded_splits_round_up() -> None:
    assert enumerate_layouts((30,), (8,)) == (replicated(1),)
    assert enumerate_layouts((30,), (8,), padded=True) == (replicated(1), Layout(((0,),)))
    assert enumerate_layouts((9,), (8,), padded=True) == (replicated(1),)
    assert Layout(((0,), ())).local_bytes(TensorType((30, 2), "float32", 4), (8,)) == 4 * 2 * 4


def test_xla_cuts_a_padded_dim_as_we_count_it() -> None:
    mesh = jax.make_mesh((2, 4), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(("a", "b")))
    lowered = jax.jit(lambda: jax.lax.with_sharding_constraint(jax.numpy.arange(30), sharding).sum()).lower()
    expected = Layout(((0, 1),)).local_elements((30,), (2, 4))
    assert f"s32[{expected}]" in (lowered.compile().as_text() or "")
