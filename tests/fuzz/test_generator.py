"""The generator of random programs: coverage, determinism, text, and that programs can be traced."""

import random

import jax
import pytest
from hypothesis import given, settings

from benchmarks.fuzzing.cases import Case, cases, draw_case, numbered_case
from benchmarks.fuzzing.program import Block, Op, Program, Type, Var, define, renamed
from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.ir import walk_nodes

CONTROL_FLOW = {"scan", "while", "cond", "remat2"}
PLAIN = settings(derandomize=True, deadline=None, database=None)


def _primitives(case: Case) -> set[str]:
    program = trace_program(case.program.function(), TraceOptions(), case.arguments(), {})
    return {node.op for node in walk_nodes(program.graph)}


def _covered(count: int) -> set[str]:
    return set().union(*(_primitives(numbered_case(0, i)) for i in range(count)))


def test_few_programs_cover_many_primitives() -> None:
    found = _covered(40)
    assert len(found) >= 40
    assert {"dot_general", "reduce_sum", "sort", "scatter-add", "scan"} <= found


@pytest.mark.slow
def test_many_programs_cover_nearly_all() -> None:
    found = _covered(300)
    assert len(found) >= 100
    assert found >= CONTROL_FLOW


def test_a_number_always_draws_the_same_case() -> None:
    drawn = [[numbered_case(seed, i) for i in range(10)] for seed in (3, 3, 4)]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


@settings(PLAIN, max_examples=15)
@given(cases())
def test_a_case_prints_as_text_that_defines_the_program(case: Case) -> None:
    program = define(str(case), "program")
    shapes = jax.eval_shape(program, *case.arguments())
    assert jax.tree.leaves(shapes) == jax.tree.leaves(
        jax.eval_shape(case.program.function(), *case.arguments())
    )


@settings(PLAIN, max_examples=15)
@given(cases())
def test_pins_name_inputs_and_divide_them(case: Case) -> None:
    inputs = {x.name: x.type for x in case.program.inputs}
    sizes = case.mesh_axes or {}
    for name, spec in case.pins:
        axes = [a for dim in spec for a in dim]
        assert len(axes) == len(set(axes)), "an axis splits one dim at most"
        for size, dim in zip(inputs[name].shape, spec, strict=True):
            parts = 1
            for axis in dim:
                parts *= sizes[axis]
            assert size % parts == 0


def test_gradients_meshes_and_split_pins_are_drawn() -> None:
    drawn = [draw_case(random.Random(i)) for i in range(40)]
    assert {case.program.is_gradient for case in drawn} == {True, False}
    assert {(8,), (2, 4), (4, 2)} <= {case.mesh for case in drawn}
    assert any(dim for case in drawn for _, spec in case.pins for dim in spec)


X, V, W = (Var(name, Type((4,), "float32")) for name in ("x0", "v0", "v1"))
BODY = Block("f0", (Var("w0", X.type),), (Op((W,), "w0 * v0"),), ("v1",))
LOOP = Op((Var("v2", X.type),), "jax.lax.map(f0, x0)", (BODY,))


def test_an_operation_reads_what_its_nested_functions_read_from_outside() -> None:
    assert LOOP.reads() == {"x0", "v0"}


def test_renaming_reaches_into_nested_functions() -> None:
    assert renamed(LOOP, {"v0": "x7"}).reads() == {"x0", "x7"}


def test_dead_operations_and_inputs_are_dropped() -> None:
    other = Var("x1", X.type)
    dead = Op((Var("v9", X.type),), "x1 + x1")
    program = Program((X, other), (Op((V,), "x0 + 1.0"), dead), ("v0",)).without_dead_code()
    assert program.inputs == (X,)
    assert [op.results for op in program.ops] == [(V,)]


def test_a_gradient_is_with_respect_to_the_real_inputs() -> None:
    count = Var("x0", Type((), "int32"))
    real = Var("x1", Type((3,), "float32"))
    program = Program((count, real), (Op((V,), "x1 * x0"),), ("v0",), is_gradient=True)
    value, gradients = program.function()(2, jax.numpy.ones(3))
    assert value == 2.0
    assert len(gradients) == 1
    assert gradients[0].tolist() == pytest.approx([2 / 3] * 3)
