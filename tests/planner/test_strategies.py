"""Strategies: the exact set of a matmul, replicated first, even and contiguous splits, pending sums."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from meshwright.compiler.analysis.fusion import FusedOperation, fused_operations
from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.planner.layout import Layout, replicated
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


def strategies(fun: Any, *args: Any, mesh: tuple[int, ...] = (2,)) -> tuple[Strategy, ...]:
    operation = only(fun, *args)
    return operation_strategies(operation, fused_rule(operation, BOOK.rule), mesh)


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


def test_only_even_splits() -> None:
    found = strategies(lax.dot, f32(3, 8), f32(8, 6), mesh=(4,))
    assert shown(found, "x") == ["replicated, replicated -> replicated", "[-, x], [x, -] -> [-, -] +x"]


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


def test_addends_are_pending_together() -> None:
    found = shown(strategies(lax.add, f32(8), f32(8), mesh=(2,)), "x")
    assert found == [
        "replicated, replicated -> replicated",
        "[x], [x] -> [x]",
        "[-] +x, [-] +x -> [-] +x",
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
                assert size % np.prod([mesh[a] for a in dim], dtype=int) == 0
        assert len(strategy.shards) == len(operation.nodes)
        assert all(1 <= n <= np.prod(mesh) for n in strategy.shards)


def test_the_order_does_not_change() -> None:
    first = strategies(lax.dot, f32(8, 8), f32(8, 8), mesh=(2, 4))
    assert first == strategies(lax.dot, f32(8, 8), f32(8, 8), mesh=(2, 4))
