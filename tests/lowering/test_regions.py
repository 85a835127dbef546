"""Lowered programs: the plain result, regions still there, constraints inside them.

Small meshes force splits by pins; results are compared with ``jax.jit`` on one device.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding

from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.ir import Program
from meshwright.compiler.lowering import SpmdProgram, device_mesh
from meshwright.compiler.plan import Plan
from meshwright.compiler.planner import PlanOptions, plan_program
from meshwright.compiler.rules import RuleBook
from meshwright.cost_models.cluster import Cluster
from tests.lowering.programs import EXAMPLES, MESH

RULES = RuleBook()


@functools.cache
def planned(name: str) -> tuple[Program, Plan, SpmdProgram]:
    """An example traced, planned under its pins and prepared for the eight devices."""
    example = EXAMPLES[name]
    program = trace_program(example.fun, TraceOptions(), example.arguments(), {})
    options = PlanOptions(mesh=MESH, pins=example.pins, effort=1)
    plan = plan_program(program, Cluster.load("cpu:8"), options, RULES)
    return program, plan, SpmdProgram(program, plan, device_mesh(plan.mesh, jax.devices("cpu")))


def jitted(name: str) -> Any:
    _, _, spmd = planned(name)
    return jax.jit(
        lambda *xs: spmd(xs), in_shardings=spmd.argument_shardings, out_shardings=spmd.result_shardings
    )


def lowered_text(name: str) -> str:
    return jitted(name).lower(*EXAMPLES[name].arguments()).as_text()


def nested_ops(jaxpr: Any) -> list[str]:
    found = []
    for eqn in jaxpr.eqns:
        found.append(eqn.primitive.name)
        for param in jax.tree.leaves(eqn.params, is_leaf=lambda p: hasattr(p, "eqns") or hasattr(p, "jaxpr")):
            inner = getattr(param, "jaxpr", param)
            if hasattr(inner, "eqns"):
                found += nested_ops(inner)
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_result_is_that_of_plain_jit(name: str, devices: list[jax.Device]) -> None:
    example = EXAMPLES[name]
    arguments = example.arguments()
    expected = jax.tree.leaves(jax.jit(example.fun)(*arguments))
    found = jitted(name)(*arguments)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", EXAMPLES)
def test_pins_are_where_the_arguments_lie(name: str, devices: list[jax.Device]) -> None:
    example = EXAMPLES[name]
    program, plan, spmd = planned(name)
    assert set(example.pins) == set(program.in_paths)
    for path, sharding, value in zip(
        program.in_paths, spmd.argument_shardings, program.graph.inputs, strict=True
    ):
        wanted = NamedSharding(sharding.mesh, example.pins[path])
        assert sharding.is_equivalent_to(wanted, value.type.rank)
    assert any(any(spec) for spec in plan.shardings.values())


@pytest.mark.parametrize("name", [name for name, example in EXAMPLES.items() if example.op])
def test_regions_are_still_there(name: str, devices: list[jax.Device]) -> None:
    example = EXAMPLES[name]
    before = nested_ops(jax.make_jaxpr(example.fun)(*example.arguments()))
    after = nested_ops(jax.make_jaxpr(lambda *xs: planned(name)[2](xs))(*example.arguments()))
    assert after.count(example.op) == before.count(example.op) > 0


def loop_body(text: str) -> str:
    """The body of the first loop in a module's text, with the functions it calls."""
    functions = {f.split("(")[0]: f for f in re.split(r"func\.func private @", text)[1:]}
    body = text[text.index(" do {") :]
    body = body[: body.index("stablehlo.return")]
    return body + "".join(functions[name] for name in sorted(set(re.findall(r"call @(\w+)", body))))


@pytest.mark.parametrize("name", ["scan", "scan-carry-split", "scan-constant", "while"])
def test_constraints_stand_inside_loop_bodies(name: str, devices: list[jax.Device]) -> None:
    body = loop_body(lowered_text(name))
    assert "dot_general" in body
    assert re.search(r"sharding_constraint %\w+ <@mesh, \[", body)


def test_remat_keeps_its_barrier(devices: list[jax.Device]) -> None:
    """Without the barrier XLA would merge the recomputation with the forward pass."""
    plain = jax.jit(EXAMPLES["remat"].fun).lower(*EXAMPLES["remat"].arguments()).as_text()
    count = plain.count("optimization_barrier")
    assert count > 0
    assert lowered_text("remat").count("optimization_barrier") == count


def test_results_lie_where_the_plan_says(devices: list[jax.Device]) -> None:
    _, _, spmd = planned("scan")
    found = jitted("scan")(*EXAMPLES["scan"].arguments())
    for array, sharding in zip(found, spmd.result_shardings, strict=True):
        assert array.sharding.is_equivalent_to(sharding, array.ndim)


def test_source_lines_reach_xla(devices: list[jax.Device]) -> None:
    text = jitted("mlp").lower(*EXAMPLES["mlp"].arguments()).as_text(debug_info=True)
    assert "programs.py" in text
