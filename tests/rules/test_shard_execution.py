"""Rules against execution on shards, and the checker against rules known to be wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshwright.compiler.rules import FactorRule
from tests.rules.cases import CASES
from tests.rules.shard_execution import BOOK, Case, arrays_of, check_factor, node_of, without_literals


def _rule(case: Case) -> FactorRule:
    node = node_of(case, arrays_of(case))
    return without_literals(node, BOOK.rule(node))


def test_enough_operations_are_checked() -> None:
    assert len({case.op for case in CASES}) >= 40


@pytest.mark.parametrize("case", CASES, ids=str)
def test_splitting_any_factor_gives_the_same_result(case: Case) -> None:
    arrays = arrays_of(case)
    node = node_of(case, arrays)
    rule = BOOK.rule(node)
    assert [len(t) for t in rule.operands] == [o.type.rank for o in node.operands]
    assert [len(t) for t in rule.results] == [r.type.rank for r in node.results]
    assert len(rule.splittable()) == case.free, str(rule)
    assert set(case.skip) <= set(rule.splittable()), f"skipped, but not splittable: {rule}"
    for factor in rule.splittable():
        if factor not in case.skip:
            check_factor(case, without_literals(node, rule), factor, arrays)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_factor_sizes_multiply_to_dims(case: Case) -> None:
    node = node_of(case, arrays_of(case))
    rule = BOOK.rule(node)
    tensors = [*zip(node.operands, rule.operands, strict=True), *zip(node.results, rule.results, strict=True)]
    for value, tensor in tensors:
        for size, dim in zip(value.type.shape, tensor, strict=True):
            assert np.prod([rule.sizes[f] for f in dim], dtype=int) == size


def _named(name: str) -> Case:
    return next(c for c in CASES if str(c) == name)


@pytest.mark.parametrize("name", ["rev", "cumsum", "sort", "slice", "pad", "concatenate", "fft"])
def test_the_checker_finds_what_must_stay_fixed(name: str) -> None:
    """Freeing the fixed factors must be noticed, or the check above says nothing."""
    case = _named(name)
    arrays = arrays_of(case)
    rule = _rule(case)
    freed = replace(rule, fixed=frozenset())
    with pytest.raises((AssertionError, TypeError, ValueError)):
        for factor in rule.fixed:
            check_factor(case, freed, factor, arrays)


def test_the_checker_finds_a_forgotten_reduction() -> None:
    case = _named("dot_general-matmul")
    rule = replace(_rule(case), reduced=frozenset())
    (contracted,) = _rule(case).reduced
    with pytest.raises(AssertionError):
        check_factor(case, rule, contracted, arrays_of(case))


def test_the_checker_finds_swapped_dims() -> None:
    case = Case("transpose", lambda x, shapes: np.transpose(x), ((8, 8),), 2)
    straight = replace(_rule(_named("neg")), sizes=(8, 8))
    with pytest.raises(AssertionError):
        check_factor(case, straight, 0, arrays_of(case))
