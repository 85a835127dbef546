"""Every spelling of replica groups."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwright.cost_models.errors import HloFormatError
from meshwright.cost_models.hlo.groups import closed_sets, parse_groups, parse_pairs


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("{{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("{}", ((0, 1, 2, 3, 4, 5, 6, 7),)),
        ("[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("[4,2]<=[2,4]T(1,0)", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("[4,2]<=[2,2,2]T(0,2,1)", ((0, 2), (1, 3), (4, 6), (5, 7))),
        ("mesh['a'=8,'b'=1] {'a'}", ((0, 1, 2, 3, 4, 5, 6, 7),)),
        ("mesh['a'=2,'b'=4] {'a'}", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['a'=2,'b'=4] {'b'}", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("mesh[a=2,b=4] {b,a}", ((0, 4, 1, 5, 2, 6, 3, 7),)),
        ("mesh['a'=2,'b'=4] {'b':(1)2}", ((0, 2), (1, 3), (4, 6), (5, 7))),
        ("mesh['a'=2,'b'=4] {'b':(2)2}", ((0, 1), (2, 3), (4, 5), (6, 7))),
        ("mesh['a'=2,'b'=4] {'a','b':(1)2}", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("mesh['a'=2,'b'=2], device_ids=(0,2,1,3) {'b'}", ((0, 2), (1, 3))),
        # Of a GPU step over a mesh 2 x 4: device (i, j, k) of it is number 4 k + i.
        ("mesh['a'=4,'b'=1,'c'=2], device_ids=([2,4]T(1,0)) {'a'}", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("mesh['a'=4,'b'=1,'c'=2], device_ids=([2,4]T(1,0)) {'c'}", ((0, 4), (1, 5), (2, 6), (3, 7))),
    ],
)
def test_spellings(text: str, groups: tuple[tuple[int, ...], ...]) -> None:
    assert parse_groups(text, 8) == groups


@given(st.permutations(range(3)), st.lists(st.integers(1, 3), min_size=3, max_size=3))
def test_iota_and_mesh_agree(order: list[int], sizes: list[int]) -> None:
    """Groups along the last axis of a transposed iota are those along that axis of the mesh."""
    axis, width = order[-1], sizes[order[-1]]
    count = int(np.prod(sizes)) // width
    others = sorted(order[:-1])
    transposed = ",".join(map(str, [*others, axis]))
    iota = parse_groups(f"[{count},{width}]<=[{','.join(map(str, sizes))}]T({transposed})", 0)
    mesh = parse_groups(f"mesh['x'={sizes[0]},'y'={sizes[1]},'z'={sizes[2]}] {{'{'xyz'[axis]}'}}", 0)
    assert iota == mesh


@pytest.mark.parametrize("text", ["V4[8]", "[3,2]<=[8]", "mesh['a'=2,'b'=2], device_ids=(0,1) {'a'}"])
def test_bad_spellings_are_quoted(text: str) -> None:
    with pytest.raises(HloFormatError) as caught:
        parse_groups(text, 8)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("pairs", "sets"),
    [
        ("{{0,1},{1,2},{2,3},{3,0}}", ((0, 1, 2, 3),)),
        ("{{0,1},{1,0},{2,3},{3,2}}", ((0, 1), (2, 3))),
        ("{{0,1},{2,1},{3,3}}", ((0, 1, 2),)),
        ("{{0,0},{1,1}}", ()),
    ],
)
def test_closed_sets(pairs: str, sets: tuple[tuple[int, ...], ...]) -> None:
    assert closed_sets(parse_pairs(pairs)) == sets
