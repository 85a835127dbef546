"""Declared rules against execution: ``check_rule``, and calls made on parts as a plan has them."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import meshwright as mw
from meshwright.compiler.rules.local_call import bind_local, planned_call
from tests.rules.opaque_calls import ROWS, array, blocks, doubled, matmul, node_of, softmax


@pytest.mark.parametrize(
    ("fun", "args", "name", "text", "options"),
    [
        (softmax, (array(16, 8),), "softmax", "b s -> b s", {"fixed": "s"}),
        (matmul, (array(8, 16), array(16, 4)), "matmul", "m k, k n -> m n", {"reduced": "k"}),
        (doubled, (array(16, 8),), "double", "b s -> b s", {}),
        (doubled, (array(16, 8),), "double", "(b c) s -> (b c) s", {"b": 4}),
    ],
    ids=["softmax", "matmul", "callback", "composite"],
)
@pytest.mark.parametrize("axis_size", [2, 4])
def test_right_rules_pass(declare, fun, args, name, text, options, axis_size) -> None:
    declare(name, text, **options)
    report = mw.check_rule(fun, *args, axis_size=axis_size)
    (call,) = report.calls
    checked = [f for f in call.factors if f.outcome == "equal"]
    assert len(checked) == {"softmax": 1, "matmul": 3}.get(name, len(call.factors))
    assert name in str(report)


@pytest.mark.parametrize(
    ("fun", "args", "name", "text", "options", "factor"),
    [
        (softmax, (array(16, 8),), "softmax", "b s -> b s", {}, "s"),
        (softmax, (array(8, 8),), "softmax", "b s -> s b", {}, "b"),
        (matmul, (array(8, 16), array(16, 4)), "matmul", "m k, j n -> m n", {"reduced": "k j"}, "k"),
        (doubled, (array(8, 8),), "double", "b s -> s b", {}, "b"),
    ],
    ids=["needed-whole", "swapped", "not-together", "callback-swapped"],
)
def test_wrong_rules_fail_with_the_factor(declare, fun, args, name, text, options, factor) -> None:
    declare(name, text, **options)
    with pytest.raises(mw.ArgumentError, match=f"{name} at .* is wrong about {factor}"):
        mw.check_rule(fun, *args)


def test_a_call_inside_a_program_is_checked_by_remaking_it(declare) -> None:
    declare("softmax", "b s -> b s")
    (call,) = mw.check_rule(lambda x: softmax(x * 2.0) + 1.0, array(16, 8)).calls
    outcomes = {f.name: f.outcome for f in call.factors}
    assert outcomes["b"] == "equal"
    assert outcomes["s"].startswith("not checked (dim 1 of")


def test_nothing_to_check_is_an_error() -> None:
    with pytest.raises(mw.ArgumentError, match=r"no call with a declared rule \(opaque calls: softmax\)"):
        mw.check_rule(softmax, array(16, 8))
    with pytest.raises(mw.ArgumentError, match="two parts or more"):
        mw.check_rule(softmax, array(16, 8), axis_size=1)


def test_a_kernel_whose_unsplit_operand_moves_with_the_grid_is_not_cut() -> None:
    """Cutting the rows of x alone would let the second half read the first half of y."""

    def add(x, y):
        def kernel(x_ref, y_ref, o_ref):
            o_ref[...] = x_ref[...] + y_ref[...]

        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            grid=(x.shape[0] // ROWS,),
            in_specs=[blocks(8), blocks(8)],
            out_specs=blocks(8),
            interpret=True,
        )(x, y)

    node = node_of(add, array(16, 8), array(16, 8))
    with pytest.raises(mw.UnsupportedError, match="read along an axis that is split"):
        bind_local(node, [array(8, 8), array(16, 8)], [(8, 8)])


@pytest.mark.parametrize(
    ("fun", "args", "declared", "specs", "collectives"),
    [
        (softmax, (array(16, 8),), ("softmax", "b s -> b s", {}), (P("a", None), P("a", None)), 0),
        (
            matmul,
            (array(8, 16), array(16, 4)),
            ("matmul", "m k, k n -> m n", {"reduced": "k"}),
            (P("b", "a"), P("a", None), P("b", None)),
            1,
        ),
    ],
    ids=["batch-split", "reduced"],
)
def test_sharded_calls_keep_their_split(declare, devices, fun, args, declared, specs, collectives) -> None:
    name, text, options = declared
    declare(name, text, **options)
    mesh = Mesh(np.array(devices).reshape(4, 2), ("a", "b"))
    node = node_of(fun, *args)
    shardings = [NamedSharding(mesh, s) for s in specs]

    @jax.jit
    def run(*xs):
        return planned_call(node, mesh, specs, xs)

    placed = [jax.device_put(x, s) for x, s in zip(args, shardings, strict=False)]
    compiled = run.lower(*placed).compile()
    text = compiled.as_text()
    assert text.count(" all-reduce(") + text.count(" all-gather(") == collectives
    (made,) = compiled(*placed)
    np.testing.assert_allclose(made, fun(*args), rtol=1e-5)
    assert made.sharding.is_equivalent_to(shardings[-1], made.ndim)


def test_the_partitioner_makes_what_it_can_and_callbacks_once(devices) -> None:
    mesh = Mesh(np.array(devices), ("a",))
    for fun in (doubled, lambda x: jax.lax.sort(x, dimension=1)):
        assert planned_call(node_of(fun, array(16, 8)), mesh, [P(), P()], [array(16, 8)]) is None


def test_an_undeclared_kernel_runs_whole_on_every_device(devices) -> None:
    mesh = Mesh(np.array(devices), ("a",))
    node, x = node_of(softmax, array(16, 8)), array(16, 8)
    made = jax.jit(lambda y: planned_call(node, mesh, [P(), P()], [y]))(x)
    assert made is not None
    np.testing.assert_allclose(made[0], softmax(x), rtol=1e-5)


def test_a_plan_for_another_declaration_is_refused(devices) -> None:
    mesh = Mesh(np.array(devices), ("a",))
    node = node_of(softmax, array(16, 8))
    with pytest.raises(mw.UnsupportedError, match="cannot be cut"):
        jax.eval_shape(lambda y: planned_call(node, mesh, [P(None, "a")] * 2, [y]), array(16, 8))


def test_a_plan_keeps_the_split_of_a_declared_kernel(declare) -> None:
    def fun(x, w):
        return softmax(x @ w) @ w.T

    args = (jax.ShapeDtypeStruct((1024, 256), "float32"), jax.ShapeDtypeStruct((256, 512), "float32"))
    gathered = [c.op for c in mw.plan(fun, *args, cluster="cpu:8").collectives]
    declare("softmax", "b s -> b s", fixed="s")
    assert "pallas_call" in gathered
    assert mw.plan(fun, *args, cluster="cpu:8").collectives == ()
