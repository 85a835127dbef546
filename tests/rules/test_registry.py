"""The rule book: composed rules of whole equations, hand-written ones, and the replicated fallback."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import pytest
from jax import lax

from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.ir import Node, walk_nodes
from meshwright.compiler.rules import FactorRule, RuleBook
from meshwright.compiler.rules.registry import rule_key
from tests.rules.shard_execution import BOOK


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, "float32")


def nodes(fun, *args) -> list[Node]:
    return list(trace_program(fun, TraceOptions(), args, {}).graph.nodes)


@pytest.mark.parametrize(
    ("fun", "args", "text"),
    [
        (lax.dot, (f32(8, 16), f32(16, 4)), "([a b], [b c])->([a c]) {a=8 b=16 c=4} reduced={b}"),
        (lambda x: lax.reshape(x, (4, 4, 8)), (f32(16, 8),), "([ab c])->([a b c]) {a=4 b=4 c=8}"),
        (lambda x: lax.reduce_max(x, (1,)), (f32(4, 8),), "([a b])->([a]) {a=4 b=8} reduced={b}"),
        (lambda x: lax.sort(x, dimension=0), (f32(4, 8),), "([a b])->([a b]) {a=4 b=8} fixed={a}"),
        (
            lambda x: lax.top_k(x, 2),
            (f32(4, 8),),
            "([a b])->([a c], [a d]) {a=4 b=8 c=2 d=2} fixed={b,c,d}",
        ),
        (lambda x: lax.neg(x), (f32(1, 8),), "([1 a])->([1 a]) {a=8}"),
    ],
    ids=["matmul", "reshape", "reduce", "sort", "top_k", "unit-dim"],
)
def test_text_of_rules(fun, args, text: str) -> None:
    (node,) = nodes(fun, *args)
    assert str(BOOK.rule(node)) == text


def test_dims_contracted_with_themselves_are_one_factor() -> None:
    (node,) = nodes(lambda x: lax.dot_general(x, x, (((1,), (1,)), ((), ()))), f32(8, 8))
    assert str(BOOK.rule(node)) == "([a b], [c b])->([a c]) {a=8 b=8 c=8} reduced={b}"


def test_random_bits_are_free_in_every_dim() -> None:
    (node,) = nodes(lambda k: jax.random.bits(k, (4, 8)), jax.eval_shape(lambda: jax.random.key(0)))
    assert str(BOOK.rule(node)) == "([])->([a b]) {a=4 b=8}"


@pytest.mark.parametrize(
    "key",
    [jax.ShapeDtypeStruct((2,), "uint32"), jax.eval_shape(lambda: jax.random.key(0))],
    ids=["raw", "typed"],
)
def test_rules_of_random_keys_have_the_ranks_of_their_values(key: Any) -> None:
    program = trace_program(
        lambda k: jax.random.normal(jax.random.split(k)[0], (16, 8)), TraceOptions(), (key,), {}
    )
    for node in walk_nodes(program.graph):
        rule = BOOK.rule(node)
        assert [len(t) for t in rule.operands] == [o.type.rank for o in node.operands], node
        assert [len(t) for t in rule.results] == [r.type.rank for r in node.results], node


@pytest.mark.parametrize(
    "fun",
    [
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True),
        lambda a, b: lax.linalg.cholesky_p.bind(a),
    ],
    ids=["triangular_solve", "cholesky"],
)
def test_what_a_solve_makes_is_not_free(fun: Callable[..., Any]) -> None:
    """A result dim that no operand has is computed from all of them, so no device can make its part alone."""
    (node,) = nodes(fun, f32(8, 8), f32(8, 8))
    rule = BOOK.rule(node)
    read = {f for tensor in rule.operands for dim in tensor for f in dim}
    assert set(rule.splittable()) <= read, str(rule)


def test_a_barrier_hands_its_dims_through() -> None:
    *_, barrier = nodes(lambda x: lax.optimization_barrier((x, x * 2.0)), f32(8, 4))
    assert str(BOOK.rule(barrier)) == "([a b], [c d])->([a b], [c d]) {a=8 b=4 c=8 d=4}"


def test_equal_operations_share_a_rule() -> None:
    first, second, other = nodes(lambda x: (lax.exp(x), lax.exp(x + 1.0)), f32(8))
    book = RuleBook()
    (exp,) = {rule_key(n) for n in (first, other)} if first.op == other.op else {rule_key(other)}
    assert rule_key(other) == exp
    assert rule_key(second) != exp
    assert book.rule(first) is book.rule(other)


def test_rules_fetched_together_equal_those_fetched_alone() -> None:
    def fun(x, y):
        return jnp.tanh(lax.dot(x, y)).sum(0), lax.sort(x)

    many = nodes(fun, f32(8, 16), f32(16, 4))
    book = RuleBook()
    book.prepare(many)
    assert [book.rule(n) for n in many] == [RuleBook().rule(n) for n in many]


def _unknown() -> Node:
    """An operation that cannot be lowered."""
    (node,) = nodes(lambda x: lax.neg(x), f32(4, 8))
    primitive = jax.extend.core.Primitive("nobody_knows")
    primitive.def_abstract_eval(lambda aval: aval)
    return replace(node, op="nobody_knows", primitive=primitive)


def test_an_unknown_operation_is_replicated_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "meshwright"):
        rule = RuleBook().rule(_unknown())
    assert rule == FactorRule((), (((), ()),), (((), ()),))
    assert "nobody_knows" in caplog.text
    assert "test_registry.py" in caplog.text


def test_one_unknown_operation_does_not_spoil_the_others() -> None:
    good = nodes(lambda x: lax.exp(lax.neg(x)), f32(4, 8))
    book = RuleBook()
    book.prepare([good[0], _unknown(), good[1]])
    assert [len(book.rule(n).splittable()) for n in good] == [2, 2]
