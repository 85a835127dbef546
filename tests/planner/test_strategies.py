"""Strategies: the exact set of a matmul, replicated first, even and contiguous splits, pending sums."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from meshwright.compiler.analysis.fusion import FusedOperation, fused_operations
from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.ir import Value
from meshwright.compiler.planner.layout import Layout, can_split, replicated
from meshwright.compiler.planner.reshard import Step
from meshwright.compiler.planner.strategies import Strategy, operation_strategies
from meshwright.compiler.rules import RuleBook
from meshwright.compiler.rules.fused import fused_rule
from meshwright.cost_models.collectives import Collective

BOOK = RuleBook()
MESHES = ((2,), (8,), (2, 4), (1, 8), (4, 2, 2))


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, "float32")


def only(fun: Any, *args: Any) -> FusedOperation:
    """The one operation that the whole function is."""
    (operation,) = set(fused_operations(trace_program(fun, TraceOptions(), args, {}).graph).values())
    return operation


def strategies(
    fun: Any, *args: Any, mesh: tuple[int, ...] = (2,), shared: bool = False
) -> tuple[Strategy, ...]:
    operation = only(fun, *args)
    return operation_strategies(operation, fused_rule(operation, BOOK.rule), mesh, shared)


def shown(found: tuple[Strategy, ...], *names: str) -> list[str]:
    def side(layouts: tuple[Layout, ...]) -> str:
        return ", ".join(x.format(names) for x in layouts)

    return [f"{side(s.operands)} -> {side(s.results)}" for s in found]


def test_a_matmul_on_one_axis_has_four() -> None:
    found = strategies(lax.dot, f32(4, 8), f32(8, 6))
    assert shown(found, "x") == [
        "replicated, replicated -> replicated",
        "[x, -], replicated -> [x, -]",
        "[-, x], [x, -] -> [-, -] +x",
        "replicated, [-, x] -> [-, x]",
    ]
    assert [s.shards for s in found] == [(1,), (2,), (2,), (2,)]
    assert all(s.steps == () for s in found)


def test_a_sum_that_several_read_may_be_finished_at_once() -> None:
    found = strategies(lax.dot, f32(4, 8), f32(8, 6), shared=True)
    assert shown(found, "x")[4:] == [
        "[-, x], [x, -] -> replicated",
        "[-, x], [x, -] -> [x, -]",
        "[-, x], [x, -] -> [-, x]",
    ]
    kinds = (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.REDUCE_SCATTER)
    assert [s.steps for s in found[4:]] == [(Step(kind, (0,), 96.0),) for kind in kinds]
    # What is handed on as a sum was not begun here, and a dim that the axis does not divide is not split.
    passed = strategies(lambda x: lax.reduce_sum(x, (0,)), f32(4, 7), shared=True)
    assert [line for line in shown(passed, "x") if line.startswith("[x, -]")] == [
        "[x, -] -> [-] +x",
        "[x, -] -> replicated",
    ]


def test_a_matmul_on_two_axes_has_all_products() -> None:
    found = strategies(lax.dot, f32(8, 8), f32(8, 8), mesh=(2, 4))
    assert len(found) == 16
    assert "[x, y], [y, -] -> [x, -] +y" in shown(found, "x", "y")
    assert "[-, x*y], [x*y, -] -> [-, -] +x +y" in shown(found, "x", "y")
    assert max(s.shards for s in found) == (8,)


def test_a_batched_matmul_may_split_its_batch() -> None:
    found = strategies(
        lambda x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))), f32(2, 4, 8), f32(2, 8, 6)
    )
    assert "[x, -, -], [x, -, -] -> [x, -, -]" in shown(found, "x")
    assert len(found) == 5


def test_splits_that_pad_too_much_are_left_out() -> None:
    found = strategies(lax.dot, f32(5, 8), f32(8, 2), mesh=(4,))
    assert shown(found, "x") == ["replicated, replicated -> replicated", "[-, x], [x, -] -> [-, -] +x"]


def test_a_padded_split_does_the_work_of_its_largest_part() -> None:
    found = strategies(lax.dot, f32(30, 8), f32(8, 2), mesh=(8,))
    assert shown(found, "x")[1] == "[x, -], replicated -> [x, -]"
    assert found[1].shards == (30 / 4,)


def test_only_whole_dims_and_masked_operations_are_padded() -> None:
    merged = strategies(lambda x: x.reshape(90, 2), f32(30, 3, 2), mesh=(8,))
    assert not any("[x" in line for line in shown(merged, "x"))
    ordered = strategies(lambda x: lax.sort(x, dimension=1), f32(30, 4), mesh=(8,))
    assert shown(ordered, "x") == ["replicated -> replicated"]


def test_axes_of_size_one_are_never_used() -> None:
    for strategy in strategies(lax.dot, f32(8, 8), f32(8, 8), mesh=(1, 2)):
        assert all(0 not in x.used_axes for x in (*strategy.operands, *strategy.results))


def test_a_merged_dim_splits_its_minor_factor_only_under_a_whole_major_one() -> None:
    """``[2, 8] -> [16]``: the minor dim is split only where the major is split to single elements."""

    def merge(x: Any) -> Any:
        return lax.reshape(x, (16,))

    assert shown(strategies(merge, f32(2, 8), mesh=(2,)), "x") == [
        "replicated -> replicated",
        "[x, -] -> [x]",
        "[-, -] +x -> [-] +x",
    ]
    both = shown(strategies(merge, f32(2, 8), mesh=(2, 4)), "x", "y")
    assert "[x, y] -> [x*y]" in both
    assert not any(text.startswith("[-, ") and "+" not in text for text in both)
    assert not any(text.startswith("[-, x]") or text.startswith("[-, y]") for text in both)


def test_a_split_dim_is_refined_major_first() -> None:
    found = shown(strategies(lambda x: lax.reshape(x, (4, 4)), f32(16), mesh=(4, 4)), "x", "y")
    assert "[x] -> [x, -]" in found
    assert "[x*y] -> [x, y]" in found
    assert "[y*x] -> [y, x]" in found
    assert "[x] -> [-, x]" not in found


def test_a_sum_leaves_a_pending_sum_and_passes_one_on() -> None:
    found = shown(strategies(lambda x: lax.reduce_sum(x, (0,)), f32(4, 8), mesh=(2,)), "x")
    assert found == [
        "replicated -> replicated",
        "[x, -] -> [-] +x",
        "[-, x] -> [x]",
        "[-, -] +x -> [-] +x",
    ]


def test_another_reduction_combines_at_once() -> None:
    found = strategies(lambda x: lax.reduce_max(x, (0,)), f32(4, 8), mesh=(2,))
    assert shown(found, "x") == ["replicated -> replicated", "[x, -] -> replicated", "[-, x] -> [x]"]
    assert [s.steps for s in found] == [(), (Step(Collective.ALL_REDUCE, (0,), 32.0),), ()]


def test_pairs_are_combined_from_all_partial_results() -> None:
    found = strategies(lambda x: lax.argmax(x, 0, jnp.int32), f32(4, 8), mesh=(2,))
    gathers = (Step(Collective.ALL_GATHER, (0,), 64.0),) * 2
    assert [s.steps for s in found] == [(), gathers, ()]


def test_addends_are_pending_together() -> None:
    found = shown(strategies(lax.add, f32(8), f32(8), mesh=(2,)), "x")
    assert found == [
        "replicated, replicated -> replicated",
        "[x], [x] -> [x]",
        "[-] +x, [-] +x -> [-] +x",
    ]


def test_a_value_read_in_two_orders_is_wanted_in_two_layouts() -> None:
    found = shown(strategies(lambda x: x + x.T, f32(4, 4)), "x")
    assert found == [
        "replicated, replicated -> replicated, replicated",
        "[x, -], [-, x] -> [-, x], [-, x]",
        "[-, x], [x, -] -> [x, -], [x, -]",
        "[-, -] +x, [-, -] +x -> [-, -] +x, [-, -] +x",
    ]


def test_a_number_spoils_a_pending_sum() -> None:
    assert not any("+" in text for text in shown(strategies(lambda x: x + 1.0, f32(8)), "x"))
    assert any("+" in text for text in shown(strategies(lambda x: x * 2.0, f32(8)), "x"))


def test_nothing_to_split_leaves_one() -> None:
    found = strategies(lambda x: lax.rev(x, (0,)), f32(3))
    (alone,) = [s for s in found if not s.results[0].partial]
    assert alone == Strategy((replicated(1),), (replicated(1),), (1,))


PROGRAMS = [
    (lax.dot, (f32(8, 16), f32(16, 4))),
    (lambda x: lax.reshape(x, (4, 4, 8)), (f32(16, 8),)),
    (lambda x: lax.reshape(x, (8, 16)), (f32(16, 8),)),
    (lambda x: lax.transpose(x, (1, 0)), (f32(16, 8),)),
    (lambda x: lax.broadcast_in_dim(x, (4, 16, 8), (1, 2)), (f32(16, 8),)),
    (lambda x: lax.reduce_max(x, (1,)), (f32(16, 8),)),
    (lambda x: lax.sort(x, dimension=0), (f32(16, 8),)),
    (lambda x: lax.top_k(x, 2), (f32(16, 8),)),
    (lambda x: jnp.exp(x), (f32(6, 10),)),
]


@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize(("fun", "args"), PROGRAMS)
def test_every_strategy_is_sound(fun: Any, args: tuple[Any, ...], mesh: tuple[int, ...]) -> None:
    operation = only(fun, *args)
    found = operation_strategies(operation, fused_rule(operation, BOOK.rule), mesh)
    assert set(found[0].shards) == {1}
    assert not any(x.used_axes for x in (*found[0].operands, *found[0].results))
    assert len(set(found)) == len(found)
    for strategy in found:
        sides = [*zip(operation.operands, strategy.operands, strict=True)]
        sides += zip(operation.results, strategy.results, strict=True)
        for value, layout in sides:
            assert len(layout.dims) == value.type.rank
            axes = [*layout.split_axes, *layout.partial]
            assert len(set(axes)) == len(axes)
            for size, dim in zip(value.type.shape, layout.dims, strict=True):
                assert can_split(size, math.prod(mesh[a] for a in dim), padded=True)
        assert len(strategy.shards) == len(operation.nodes)
        assert all(1 <= n <= np.prod(mesh) for n in strategy.shards)


def _scaled_sum(x: Any, y: Any) -> Any:
    return (x - y) / 4.0


def _softmax(x: Any, largest: Any, total: Any) -> Any:
    return jnp.exp(x - largest[:, None]) / total[:, None]


def _merged(x: Any, y: Any) -> Any:
    return jnp.transpose(x, (1, 0, 2)).reshape(x.shape[1], -1) * 2.0 + y


LOOPS = [
    (_scaled_sum, (f32(8, 16), f32(8, 16))),
    (_softmax, (f32(8, 16), f32(8), f32(8))),
    (_merged, (f32(4, 8, 16), f32(8, 64))),
    (lambda x: -x.T.reshape(-1), (f32(8, 16),)),
]


def unordered(layout: Layout) -> Layout:
    """A node alone splits one factor by axes in one order; two factors of a loop may come in another."""
    return Layout(tuple(tuple(sorted(dim)) for dim in layout.dims), layout.partial)


@pytest.mark.parametrize("mesh", [(2,), (2, 4)], ids=str)
@pytest.mark.parametrize(("fun", "args"), LOOPS)
def test_a_strategy_of_a_loop_suits_each_of_its_nodes(
    fun: Any, args: tuple[Any, ...], mesh: tuple[int, ...]
) -> None:
    """Each value has one layout wherever the loop makes or reads it, so nothing is resharded inside."""
    operation = only(fun, *args)
    assert len(operation.nodes) > 1
    suited = []
    for node in operation.nodes:
        single = FusedOperation((node,), frozenset(node.results))
        found = operation_strategies(single, fused_rule(single, BOOK.rule), mesh)
        suited.append({(*map(unordered, s.operands), *map(unordered, s.results)) for s in found})
    for strategy in operation_strategies(operation, fused_rule(operation, BOOK.rule), mesh):
        layouts = dict(zip(operation.operands, strategy.operands, strict=True))
        layouts |= dict(zip(operation.results, strategy.results, strict=True))
        for node, allowed in zip(operation.nodes, suited, strict=True):
            values = dict.fromkeys(o for o in node.operands if isinstance(o, Value))
            found = tuple(unordered(layouts[v]) for v in (*values, *node.results))
            assert found in allowed, (node.op, strategy)


def test_a_pending_sum_passes_through_a_linear_loop() -> None:
    found = shown(strategies(_scaled_sum, f32(8), f32(8)), "x")
    assert found == [
        "replicated, replicated -> replicated, replicated",
        "[x], [x] -> [x], [x]",
        "[-] +x, [-] +x -> [-] +x, [-] +x",
    ]
    assert not any("+" in text for text in shown(strategies(_softmax, f32(8, 2), f32(8), f32(8)), "x"))


def test_only_what_depends_on_a_pending_sum_is_pending() -> None:
    def fun(x: Any, r: Any) -> Any:
        return x * lax.broadcast_in_dim(r, (8,), ())

    (pending,) = [s for s in strategies(fun, f32(8), f32()) if s.results[-1].partial]
    layouts = dict(zip((n.op for n in only(fun, f32(8), f32()).nodes), pending.results, strict=True))
    assert layouts == {"broadcast_in_dim": replicated(1), "mul": Layout(((),), (0,))}


def test_nodes_of_a_loop_share_the_work_their_results_are_split_by() -> None:
    """The shifted maximum of a row is made on every device that holds a part of the row."""
    found = strategies(lambda x, m: x * jnp.sin(m)[:, None], f32(8, 16), f32(8), mesh=(2, 4))
    by_rows = [s for s in found if s.results[-1] == Layout(((0,), (1,)))]
    assert [s.shards for s in by_rows] == [(2, 2, 8)]


def test_the_order_does_not_change() -> None:
    first = strategies(lax.dot, f32(8, 8), f32(8, 8), mesh=(2, 4))
    assert first == strategies(lax.dot, f32(8, 8), f32(8, 8), mesh=(2, 4))
