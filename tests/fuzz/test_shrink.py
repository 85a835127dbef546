"""Shrinking: a fault put into the lowering comes out as a program of an operation or two."""

from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.fuzzing.cases import Case, numbered_case
from benchmarks.fuzzing.check import Checker, Verdict
from benchmarks.fuzzing.program import Block, Op, Program, Type, Var
from benchmarks.fuzzing.reporter import describe, shrunk
from benchmarks.fuzzing.shrink import shrink
from meshwright.compiler.lowering import spmd

VECTOR = Type((8,), "float32")


@pytest.fixture
def _wrong_tanh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The lowering takes tanh for its negative."""
    right = spmd.bind

    def bind(primitive: Any, operands: Any, params: Any) -> list[Any]:
        results = right(primitive, operands, params)
        return [-r for r in results] if primitive.name == "tanh" else results

    monkeypatch.setattr(spmd, "bind", bind)
    yield


@pytest.mark.usefixtures("devices", "_wrong_tanh")
def test_a_fault_in_one_operation_shrinks_to_it() -> None:
    inputs = Var("x0", VECTOR), Var("x1", VECTOR)
    texts = ["x0 * x1", "jnp.cumsum(v0)", "jnp.tanh(v1)", "v2 + x1", "jnp.sort(x1)"]
    ops = tuple(Op((Var(f"v{i}", VECTOR),), text) for i, text in enumerate(texts))
    case = Case(Program(inputs, ops, ("v3", "v4")), (2, 4), (("x0", (("a",),)), ("x1", (("b",),))), 0)
    checker = Checker()
    outcome = checker.check(case)
    assert outcome.verdict == Verdict.MISMATCH
    small = shrunk(checker, case, outcome, time_limit_s=60)
    assert [op.text[:9] for op in small.program.ops] == ["jnp.tanh("]
    assert small.pins == ()
    report = describe(small, checker.check(small))
    assert all(part in report for part in ("mismatch: result 0", "def program(", "mesh={'a': 8}", "= tanh("))


def test_shrinking_drops_all_that_does_not_matter() -> None:
    """Without running anything: a case is at fault where its text sorts."""
    case = next(c for c in (numbered_case(5, i) for i in range(200)) if _sorts(c) and _size(c) >= 6)
    small = shrink(case, _sorts)
    assert _sorts(small)
    assert _size(small) == 1
    assert small.pins == ()


def test_operations_of_nested_functions_are_dropped() -> None:
    state = Var("w0", VECTOR)
    body = (
        Op((Var("v0", VECTOR),), "jnp.sin(w0)"),
        Op((Var("v1", VECTOR),), "jnp.sort(v0)"),
        Op((Var("v2", VECTOR),), "v1 * 2.0"),
    )
    block = Block("f0", (state,), body, ("v2",))
    loop = Op((Var("v3", VECTOR),), "jax.lax.fori_loop(0, 2, lambda i, c: f0(c), x0)", (block,))
    case = Case(Program((Var("x0", VECTOR),), (loop,), ("v3",)), (8,), (), 0)
    (small,) = shrink(case, _sorts).program.ops
    assert [op.text for op in small.blocks[0].ops] == ["jnp.sort(w0)"]


def test_the_time_limit_ends_the_search() -> None:
    case = numbered_case(5, 0)
    assert shrink(case, lambda c: True, time_limit_s=0.0) == case


def _sorts(case: Case) -> bool:
    return "jnp.sort" in str(case)


def _size(case: Case) -> int:
    return len(case.program.ops)
