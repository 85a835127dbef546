"""Declared opaque calls run as planned: on the parts a device holds, without a gather, and summed once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import PartitionSpec as P

from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.lowering import SpmdProgram, device_mesh
from meshwright.compiler.plan import Plan
from meshwright.compiler.planner import PlanOptions, plan_program
from meshwright.compiler.rules import RuleBook
from meshwright.cost_models.cluster import Cluster
from tests.rules.opaque_calls import array, doubled, matmul, softmax

MESH = {"data": 2, "model": 4}
SYMMETRIC = jnp.eye(4) + 0.1 * jnp.ones((8, 4, 4))


def cholesky(x: Any) -> Any:
    """The Cholesky factors of a batch by LAPACK's foreign function."""
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct(x.shape[:1], jnp.int32)]
    call = jax.ffi.ffi_call(
        "lapack_spotrf_ffi", shapes, input_layouts=[(0, 2, 1)], output_layouts=[(0, 2, 1), (0,)]
    )
    return jnp.tril(call(x, uplo=np.uint8(ord("L")))[0])


@pytest.fixture(scope="module", autouse=True)
def lapack() -> None:
    """JAX loads LAPACK's functions where it first lowers one of its own calls to them."""
    jax.jit(lax.linalg.cholesky).lower(jnp.eye(2))


def column_sums(x: Any) -> Any:
    """A callback that sums over rows."""

    def summed(x: Any) -> Any:
        return np.asarray(x).sum(0)

    return jax.pure_callback(summed, jax.ShapeDtypeStruct(x.shape[1:], x.dtype), x)


def compiled(fun: Callable[..., Any], args: tuple[Any, ...], pins: dict[str, P]) -> tuple[Plan, Any]:
    """The plan of a function under pins, and the function compiled by it for the eight devices."""
    program = trace_program(fun, TraceOptions(), args, {})
    options = PlanOptions(mesh=MESH, pins=pins, effort=1)
    plan = plan_program(program, Cluster.load("cpu:8"), options, RuleBook())
    spmd = SpmdProgram(program, plan, device_mesh(plan.mesh, jax.devices("cpu")))
    planned = jax.jit(
        lambda *xs: spmd(xs), in_shardings=spmd.argument_shardings, out_shardings=spmd.result_shardings
    )
    return plan, planned.lower(*args).compile()


def collectives(text: str) -> dict[str, int]:
    kinds = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
    return {kind: n for kind in kinds if (n := len(re.findall(rf" {kind}(?:-start)?\(", text)))}


@pytest.mark.parametrize(
    ("fun", "args", "declared", "pins", "wanted"),
    [
        (softmax, (array(16, 8),), ("softmax", "b s -> b s", {}), {"x": P("model")}, {}),
        (cholesky, (SYMMETRIC,), ("lapack_spotrf_ffi", "b _ _ -> b _ _, b", {}), {"x": P("model")}, {}),
        (doubled, (array(16, 8),), ("double", "b s -> b s", {}), {"x": P("model", "data")}, {}),
        (
            matmul,
            (array(8, 32), array(32, 4)),
            ("matmul", "m k, k n -> m n", {"reduced": "k"}),
            {"x": P("data", "model"), "y": P("model")},
            {"all-reduce": 1},
        ),
        # Devices waiting in a sum after callbacks would keep the threads that other callbacks need.
        (
            column_sums,
            (array(64, 8),),
            ("summed", "k n -> n", {"reduced": "k", "fixed": "n"}),
            {"x": P("model")},
            {"all-gather": 1},
        ),
    ],
    ids=["pallas", "ffi", "callback", "pallas-reduced", "callback-reduced"],
)
def test_scenario_15_a_declared_call_is_made_on_parts(
    declare, devices, fun, args, declared, pins, wanted
) -> None:
    name, text, options = declared
    declare(name, text, **options)
    plan, program = compiled(fun, args, pins)
    assert collectives(program.as_text()) == wanted
    assert {use.kind: use.count for use in plan.collectives} == wanted
    np.testing.assert_allclose(program(*args)[0], fun(*args), rtol=1e-5)


def test_a_reduced_factor_is_priced_as_the_sum_that_is_made(declare, devices) -> None:
    """Each device has a block of four rows and four columns of the result, pending along one axis."""
    declare("matmul", "m k, k n -> m n", reduced="k")
    pins = {"x": P("data", "model"), "y": P("model")}
    plan, program = compiled(matmul, (array(8, 32), array(32, 4)), pins)
    (use,) = plan.collectives
    assert (use.kind, use.axes, use.bytes) == ("all-reduce", ("model",), 4 * 4 * 4)
    assert "f32[4,4]{1,0} all-reduce(" in program.as_text()


def test_a_declared_call_in_a_loop_is_made_on_parts(declare, devices) -> None:
    def fun(x: Any) -> Any:
        return lax.scan(lambda h, _: (softmax(h) * 2.0, None), x, None, length=3)[0]

    declare("softmax", "b s -> b s")
    _, program = compiled(fun, (array(16, 8),), {"x": P("model")})
    assert collectives(program.as_text()) == {}
    np.testing.assert_allclose(program(array(16, 8))[0], fun(array(16, 8)), rtol=1e-5)


def test_an_operand_in_another_layout_is_moved_before_the_call(declare, devices) -> None:
    """Rows must stay whole for the kernel: the split columns are exchanged for rows."""
    declare("softmax", "b s -> b s", fixed="s")
    _, program = compiled(softmax, (array(16, 8),), {"x": P(None, "model")})
    np.testing.assert_allclose(program(array(16, 8))[0], softmax(array(16, 8)), rtol=1e-5)


def test_scenario_15_an_undeclared_call_runs_whole(devices) -> None:
    _, program = compiled(softmax, (array(16, 8),), {"x": P("model")})
    assert collectives(program.as_text())["all-gather"] == 1
    np.testing.assert_allclose(program(array(16, 8))[0], softmax(array(16, 8)), rtol=1e-5)


def test_scenario_16_custom_partitioning_brings_its_rule(devices) -> None:
    @custom_partitioning
    def halved(x: Any) -> Any:
        return x * 0.5

    halved.def_partition(
        partition=lambda mesh, operands, results: (
            mesh,
            lambda x: x * 0.5,
            results.sharding,
            (operands[0].sharding,),
        ),
        sharding_rule="i j -> i j",
    )
    x = array(16, 8)
    plan, program = compiled(lambda x: halved(x) + 1.0, (x,), {"x": P("model")})
    assert plan.collectives == ()
    assert collectives(program.as_text()) == {}
    np.testing.assert_allclose(program(x)[0], x * 0.5 + 1.0, rtol=1e-6)
