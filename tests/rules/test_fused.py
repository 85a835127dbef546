"""Rules of fused operations: factors identified through the loop, checked on shards, and linear groups."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from meshwright.compiler.analysis.fusion import FusedOperation, fused_operations
from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.rules import FactorRule
from meshwright.compiler.rules.factor import TensorFactors
from meshwright.compiler.rules.fused import fused_key, fused_linear_groups, fused_rule, pending_results
from tests.rules.shard_execution import BOOK, Case, arrays_of, check_factor

Loop = Callable[..., Any]
Shape = tuple[int, ...]
X: Shape = (8, 4)


def operations(fun: Loop, *shapes: Shape) -> list[FusedOperation]:
    args = [jax.ShapeDtypeStruct(s, "float32") for s in shapes]
    graph = trace_program(fun, TraceOptions(), args, {}).graph
    return list(dict.fromkeys(fused_operations(graph).values()))


def only(fun: Loop, *shapes: Shape) -> FusedOperation:
    """The one operation that the whole function is."""
    (operation,) = operations(fun, *shapes)
    return operation


def argument_order(fun: Loop, operation: FusedOperation) -> list[int]:
    """For each argument of the function, which operand it is."""
    paths = [value.path for value in operation.operands]
    return [paths.index(name) for name in inspect.signature(fun).parameters]


def outer_rule(fun: Loop, operation: FusedOperation) -> FactorRule:
    """The rule from arguments to last result, factors numbered as they appear there."""
    rule = fused_rule(operation, BOOK.rule)
    number: dict[int, int] = {}

    def renumbered(tensor: TensorFactors) -> TensorFactors:
        return tuple(tuple(number.setdefault(f, len(number)) for f in dim) for dim in tensor)

    operands = tuple(renumbered(rule.operands[i]) for i in argument_order(fun, operation))
    result = renumbered(rule.results[-1])
    sizes = tuple(rule.sizes[f] for f in number)
    fixed = frozenset(number[f] for f in rule.fixed if f in number)
    return FactorRule(sizes, operands, (result,), frozenset(number[f] for f in rule.reduced), fixed)


def _normalised(x: Any, mean: Any, variance: Any, scale: Any) -> Any:
    return (x - mean[:, None]) * lax.rsqrt(variance[:, None] + 1e-5) * scale


def _softmax(x: Any, largest: Any, total: Any) -> Any:
    return jnp.exp(x - largest[:, None]) / total[:, None]


def _outer(x: Any, y: Any) -> Any:
    return jnp.exp(x)[:, None] * y[None, :]


def _heads(x: Any, y: Any) -> Any:
    """Heads merged into one dim behind an activation."""
    return jnp.transpose(jnp.tanh(x), (1, 0, 2)).reshape(x.shape[1], -1) + y


LOOPS: dict[str, tuple[Loop, tuple[Shape, ...], str]] = {
    "norm": (_normalised, (X, (8,), (8,), (4,)), "([a b], [a], [a], [b])->([a b]) {a=8 b=4}"),
    "softmax": (_softmax, (X, (8,), (8,)), "([a b], [a], [a])->([a b]) {a=8 b=4}"),
    "outer": (_outer, ((8,), (4,)), "([a], [b])->([a b]) {a=8 b=4}"),
    "heads": (_heads, ((2, 8, 4), (8, 8)), "([a b c], [b ac])->([b ac]) {a=2 b=8 c=4}"),
}


@pytest.mark.parametrize("name", LOOPS)
def test_factors_are_identified_along_the_loop(name: str) -> None:
    fun, shapes, text = LOOPS[name]
    assert str(outer_rule(fun, only(fun, *shapes))) == text


@pytest.mark.parametrize("name", LOOPS)
def test_shards_of_a_loop_make_shards_of_its_result(name: str) -> None:
    fun, shapes, _ = LOOPS[name]
    rule = outer_rule(fun, only(fun, *shapes))
    case = Case(name, lambda *args: fun(*args[:-1]), shapes, len(rule.sizes))
    for factor in rule.splittable():
        check_factor(case, rule, factor, arrays_of(case))


def test_inner_results_are_in_the_rule() -> None:
    rule = fused_rule(only(lambda x: jnp.exp(x.T) * 2.0, X), BOOK.rule)
    assert str(rule) == "([a b])->([b a], [b a], [b a]) {a=8 b=4}"


def test_a_matmul_with_itself_keeps_both_factors() -> None:
    def gram(x: Any) -> Any:
        return lax.dot_general(x, x, (((1,), (1,)), ((), ())))

    rule = fused_rule(only(gram, (8, 8)), BOOK.rule)
    assert str(rule) == "([a b], [c b])->([a c]) {a=8 b=8 c=8} reduced={b}"


def test_a_value_read_both_ways_by_one_loop_is_two_operands() -> None:
    rule = fused_rule(only(lambda x: x + x.T, (8, 8)), BOOK.rule)
    assert str(rule) == "([a b], [b a])->([b a], [b a]) {a=8 b=8}"


def test_a_value_read_both_ways_further_down_is_whole() -> None:
    """The loop reads ``x`` in one order and turns one of its own values: no axis splits both dims alike."""
    rule = fused_rule(only(lambda x: x + (-x).T, (8, 8)), BOOK.rule)
    assert rule.splittable() == ()


def test_dims_that_do_not_fit_each_other_are_fixed() -> None:
    rule = fused_rule(only(lambda x, y: jnp.tanh(x).reshape(5, 3) + y, (3, 5), (5, 3)), BOOK.rule)
    assert rule.splittable() == ()


def test_rules_of_single_operations_are_their_own() -> None:
    (matmul,) = operations(lambda x, y: x @ y, (8, 16), (16, 4))
    assert fused_rule(matmul, BOOK.rule) == BOOK.rule(matmul.nodes[0])


def test_equal_loops_share_a_key() -> None:
    first, second = operations(lambda a, b: (jnp.sin(a) * a, jnp.sin(b) * b), X, X)
    assert first is not second
    assert fused_key(first) == fused_key(second)


def test_keys_tell_wirings_apart() -> None:
    def crossed(a: Any, b: Any) -> Any:
        return (a + b) * (jnp.sin(a) - b)

    def straight(a: Any, b: Any) -> Any:
        return (a + b) * (jnp.sin(a) - a)

    def swapped(a: Any, b: Any) -> Any:
        total, difference = a + b, jnp.sin(a) - b
        return difference * total

    keys = [fused_key(only(fun, X, X)) for fun in (crossed, straight, swapped)]
    assert len(set(keys)) == 3


def groups(fun: Loop, *shapes: Shape) -> set[frozenset[str]]:
    """The linear groups, by argument name."""
    operation = only(fun, *shapes)
    found = fused_linear_groups(operation)
    return {frozenset(operation.operands[i].path for i in group) for group in found}


def test_addends_are_joint() -> None:
    assert groups(lambda x, y: (x + y) * 3.0, X, X) == {frozenset("xy")}
    assert groups(lambda x, y, z: -(x + y) - z / 2.0, X, X, X) == {frozenset("xyz")}


def test_a_broadcast_scalar_scales() -> None:
    def fun(x: Any, y: Any, r: Any) -> Any:
        return (x + y) * lax.broadcast_in_dim(r, X, ())

    assert groups(fun, X, X, ()) == {frozenset("xy")}
    assert groups(lambda x, r: -x / lax.broadcast_in_dim(r, X, ()), X, ()) == {frozenset("x")}


@pytest.mark.parametrize(
    "fun",
    [
        lambda x, y: jnp.tanh(x + y),
        lambda x, y: x * y * 2.0,
        lambda x, y: (x + y) + 1.0,
        lambda x, y: (x + y) * x,
        lambda x, y: 2.0 / (x + y),
        lambda x, y: jnp.maximum(x + y, 0.0),
    ],
    ids=["tanh", "product", "constant-addend", "quadratic", "divisor", "maximum"],
)
def test_the_rest_is_not_linear(fun: Loop) -> None:
    assert groups(fun, X, X) == set()


def test_a_pending_sum_divides_nothing() -> None:
    assert groups(lambda x, r: lax.broadcast_in_dim(r, X, ()) / -x, X, ()) == set()


def test_an_array_factor_is_linear_in_neither() -> None:
    """A factor that differs by element is known only where its elements are; products have no groups."""
    assert groups(lambda x, y: -x * y, X, X) == set()


def test_pending_results_are_those_that_depend_on_the_group() -> None:
    def fun(x: Any, y: Any, r: Any) -> Any:
        return (x + y) * jnp.sqrt(lax.broadcast_in_dim(r, X, ()))

    operation = only(fun, X, X, ())
    group = tuple(i for i, value in enumerate(operation.operands) if value.path in "xy")
    flags = pending_results(operation, group)
    assert flags is not None
    ops = [node.op for node in operation.nodes]
    assert dict(zip(ops, flags, strict=True)) == {
        "broadcast_in_dim": False,
        "sqrt": False,
        "add": True,
        "mul": True,
    }
    assert pending_results(operation, group[:1]) is None


LINEAR: dict[str, tuple[Loop, tuple[Shape, ...]]] = {
    "sum": (lambda x, y: (x - y) * 3.0, (X, X)),
    "scaled": (lambda x, r: -x * jnp.exp(lax.broadcast_in_dim(r, X, ())), (X, ())),
    "moved": (lambda x: jnp.transpose(-x).reshape(-1) / 4.0, (X,)),
    "stretched": (lambda x, y: jnp.broadcast_to(x[:, None], X) + y, ((8,), X)),
}


@pytest.mark.parametrize("name", LINEAR)
def test_groups_are_additive(name: str) -> None:
    """Adding before and after a loop are the same for what is in the group, all else held."""
    fun, shapes = LINEAR[name]
    operation = only(fun, *shapes)
    order = argument_order(fun, operation)
    found = fused_linear_groups(operation)
    assert found
    rng = np.random.default_rng(0)
    one, other = ([rng.uniform(-1, 1, s).astype(np.float32) for s in shapes] for _ in range(2))
    for group in found:
        inside = [i in group for i in order]
        second = [b if held else a for held, a, b in zip(inside, one, other, strict=True)]
        added = [a + b if held else a for held, a, b in zip(inside, one, other, strict=True)]
        np.testing.assert_allclose(fun(*added), fun(*one) + fun(*second), rtol=1e-5, atol=1e-5)


def test_a_scalar_scales_without_being_broadcast() -> None:
    """JAX 0.10 traces ``x * r`` with a scalar ``r`` to one multiplication without a broadcast."""
    assert groups(lambda x, y, r: (x + y) * r, X, X, ()) == {frozenset("xy")}
    assert groups(lambda x, r: x * r, X, ()) == {frozenset("x")}
    assert groups(lambda x, y, r: x - y * r, X, X, ()) == {frozenset("xy")}
