"""Composition of rules: identified dims refine each other, and what does not divide is fixed."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meshwright.compiler.rules.factor_algebra import Factor, close, fix, free_tensor, identify

SIZES = st.lists(st.sampled_from([1, 2, 3, 4, 6, 8]), min_size=1, max_size=4)


def _sizes(factors: list[Factor]) -> list[int]:
    return [leaf.size for f in factors for leaf in f.leaves() if leaf.size > 1]


def test_equal_sizes_become_one() -> None:
    a, b = Factor(8), Factor(8)
    identify([a], [b])
    assert a.leaves() == b.leaves()
    assert not a.leaves()[0].fixed


def test_a_dim_is_split_into_the_other_sides_factors() -> None:
    whole, major, minor = Factor(24), Factor(4), Factor(6)
    identify([whole], [major, minor])
    assert whole.leaves() == [*major.leaves(), *minor.leaves()]
    assert _sizes([whole]) == [4, 6]


def test_both_sides_refine_each_other() -> None:
    left, right = [Factor(8), Factor(3)], [Factor(2), Factor(12)]
    identify(left, right)
    assert _sizes(left) == _sizes(right) == [2, 4, 3]
    assert not any(leaf.fixed for f in left for leaf in f.leaves())


def test_sizes_that_do_not_divide_are_fixed() -> None:
    left, right = [Factor(6), Factor(4)], [Factor(4), Factor(6)]
    identify(left, right)
    assert all(leaf.fixed for f in (*left, *right) for leaf in f.leaves())


def test_what_agrees_before_the_clash_stays_free() -> None:
    left, right = [Factor(5), Factor(6), Factor(4)], [Factor(5), Factor(4), Factor(6)]
    identify(left, right)
    assert [leaf.fixed for f in left for leaf in f.leaves()] == [False, True, True]


def test_marks_survive_union_and_split() -> None:
    reduced, plain = Factor(8), Factor(8)
    reduced.reduced = True
    identify([plain], [reduced])
    assert plain.leaves()[0].reduced
    fixed = Factor(8)
    fix([fixed])
    identify([fixed], [Factor(2), Factor(4)])
    assert [leaf.fixed for leaf in fixed.leaves()] == [True, True]


def test_an_earlier_split_reaches_all_holders() -> None:
    """A factor unified first and split later is split for both of its tensors."""
    a, b = Factor(8), Factor(8)
    identify([a], [b])
    identify([b], [Factor(2), Factor(4)])
    assert _sizes([a]) == [2, 4]
    assert a.leaves() == b.leaves()


@given(SIZES, SIZES)
def test_identified_views_agree_or_are_fixed(left_sizes: list[int], right_sizes: list[int]) -> None:
    left, right = [Factor(n) for n in left_sizes], [Factor(n) for n in right_sizes]
    before = math.prod(left_sizes), math.prod(right_sizes)
    identify(left, right)
    a = [leaf for f in left for leaf in f.leaves() if leaf.size > 1]
    b = [leaf for f in right for leaf in f.leaves() if leaf.size > 1]
    assert (math.prod(f.size for f in a), math.prod(f.size for f in b)) == before
    free_a, free_b = [f for f in a if not f.fixed], [f for f in b if not f.fixed]
    assert free_a == free_b
    assert a[: len(free_a)] == free_a, "a free factor behind a fixed one would be shifted"


@given(SIZES, st.data())
def test_any_grouping_of_a_dim_is_found(sizes: list[int], data: st.DataObject) -> None:
    """A reshape that cuts one dim into any two coarser groupings leaves every factor free."""
    total = math.prod(sizes)
    left = [Factor(total)]
    right = [Factor(n) for n in sizes]
    identify(left, right)
    assert _sizes(left) == [n for n in sizes if n > 1]
    assert not any(leaf.fixed for f in right for leaf in f.leaves())
    cut = data.draw(st.integers(0, len(sizes)))
    coarse = [Factor(math.prod(sizes[:cut])), Factor(math.prod(sizes[cut:]))]
    identify(coarse, left)
    assert not any(leaf.fixed for f in coarse for leaf in f.leaves())


def test_close_names_reduced_and_repeated_factors() -> None:
    (i, j), (k,) = free_tensor((4, 8)), free_tensor((8,))
    for factor in (j[0], k[0]):
        factor.reduced = True
    identify(j, k)
    rule = close([[i, j], [k]], [[i]])
    assert rule.reduced == {1}
    assert rule.operands == (((0,), (1,)), ((1,),))
    diagonal = close([[i, i]], [[i]])
    assert diagonal.fixed == {0}
    assert diagonal.splittable() == ()


def test_a_factor_reduced_inside_but_seen_outside_is_fixed() -> None:
    (i,) = free_tensor((8,))
    i[0].reduced = True
    assert close([[i]], [[i]]).fixed == {0}


def test_dims_of_size_one_have_no_factor() -> None:
    tensor = free_tensor((1, 4))
    rule = close([tensor], [tensor])
    assert rule.operands == (((), (0,)),)
    assert np.prod(rule.sizes) == 4
