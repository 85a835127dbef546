"""Declared rules: their text, their meeting with calls, and what is reported."""

from __future__ import annotations

import logging
from typing import Any

import jax
import numpy as np
import pytest
from jax.experimental import io_callback
from jax.experimental.custom_partitioning import custom_partitioning

import meshwright as mw
from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.rules import RuleBook
from meshwright.compiler.rules.declaration_text import parse_declaration
from meshwright.compiler.rules.declared import declared_rules
from meshwright.compiler.rules.registry import rule_key
from tests.rules.opaque_calls import array, doubled, node_of, rule_text, softmax


def test_text_is_read() -> None:
    operands, results = parse_declaration("(b s) h, h _,  -> b s 1")
    assert operands == ((("b", "s"), ("h",)), (("h",), ("_",)), ())
    assert results == ((("b",), ("s",), ()),)


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("b s", 3, "one ->"),
        ("b -> b -> b", 7, "one ->"),
        ("b % -> b", 2, "a factor's name"),
        ("(b s -> b", 0, "never closed"),
        ("b) -> b", 1, "never opened"),
        ("(b (s)) -> b", 3, "nested"),
        ("(b _) -> b", 3, "part of a dim"),
        ("b b -> b", 2, "twice"),
    ],
)
def test_bad_text_is_refused_with_its_position(text: str, position: int, problem: str) -> None:
    with pytest.raises(mw.ArgumentError, match=f"position {position}: .*{problem}"):
        mw.register_rule("bad", text)
    assert "bad" not in declared_rules()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"reduced": "q"}, "reduced names q"),
        ({"fixed": "q"}, "fixed names q"),
        ({"reduced": "b"}, "b is reduced but stands in a result"),
        ({"reduced": "k", "fixed": "k"}, "both reduced and fixed"),
        ({"q": 2}, "a size names q"),
        ({"b": 0}, "b=0 is no size"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(mw.ArgumentError, match=problem):
        mw.register_rule("bad", "b k -> b", **options)


@pytest.mark.parametrize("target", [3, "", None])
def test_a_target_is_a_name_or_a_primitive(target: Any) -> None:
    with pytest.raises(mw.ArgumentError, match="neither a name nor a primitive"):
        mw.register_rule(target, "b -> b")


def test_a_rule_is_taken_back() -> None:
    mw.register_rule("softmax", "b s -> b s")
    mw.unregister_rule("softmax")
    with pytest.raises(mw.ArgumentError, match="has no declared rule"):
        mw.unregister_rule("softmax")


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("b s -> b s", {"fixed": "s"}, "([a b])->([a b]) {a=16 b=8} fixed={b}"),
        ("b _ -> b _", {}, "([a b])->([a c]) {a=16 b=8 c=8} fixed={b,c}"),
        ("(b s) h -> (b s) h", {"b": 4}, "([ab c])->([ab c]) {a=4 b=4 c=8}"),
        ("b k -> b n", {}, "([a b])->([a c]) {a=16 b=8 c=8} fixed={b,c}"),
    ],
)
def test_declared_rules_of_a_callback(declare, text: str, options: dict[str, Any], expected: str) -> None:
    declare("double", text, **options)
    assert rule_text(doubled, array(16, 8)) == expected


def test_reduced_factors_and_scalars(declare) -> None:
    def call(x, y, scale):
        return jax.ffi.ffi_call("scaled_matmul", jax.ShapeDtypeStruct((8, 2), x.dtype))(x, y, scale)

    declare("scaled_matmul", "m k, k n, -> m n", reduced="k")
    expected = "([a b], [b c], [])->([a c]) {a=8 b=4 c=2} reduced={b}"
    assert rule_text(call, array(8, 4), array(4, 2), array()) == expected


def test_a_dim_of_size_one_has_no_factor(declare) -> None:
    def call(x, y):
        return jax.ffi.ffi_call("add_row", jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)

    declare("add_row", "b s, b s -> b s")
    assert rule_text(call, array(8, 4), array(1, 4)) == "([a b], [1 b])->([a b]) {a=8 b=4}"


def test_a_kernel_is_split_between_its_blocks(declare) -> None:
    """Sixteen rows in blocks of two: eight parts at most; the columns stand in one block."""
    declare("softmax", "b s -> b s")
    assert rule_text(softmax, array(16, 8)) == "([ac b])->([ac b]) {a=8 b=8 c=2} fixed={b,c}"


def test_a_primitive_given_as_an_object(declare) -> None:
    declare(jax.lax.sort_p, "b _ -> b _")
    assert (
        rule_text(lambda x: jax.lax.sort(x, dimension=1), array(4, 8))
        == "([a b])->([a c]) {a=4 b=8 c=8} fixed={b,c}"
    )


def test_a_name_never_means_a_primitive_of_jax(declare) -> None:
    declare("sort", "_ _ -> _ _")
    assert rule_text(lambda x: jax.lax.sort(x, dimension=1), array(4, 8)) == (
        "([a b])->([a b]) {a=4 b=8} fixed={b}"
    )


def test_the_declaration_is_part_of_the_key(declare) -> None:
    node, book = node_of(softmax, array(16, 8)), RuleBook()
    before = rule_key(node)
    assert not book.rule(node).splittable()
    declare("softmax", "b s -> b s")
    assert rule_key(node) != before
    assert book.rule(node).splittable() == (0,)


def test_custom_partitioning_brings_its_rule() -> None:
    @custom_partitioning
    def product(x, y):
        return x @ y

    product.def_partition(
        partition=lambda *_: pytest.fail("nothing is partitioned here"),
        sharding_rule="i j, j k -> i k",
        reduction_factors=("j",),
    )
    expected = "([a b], [b c])->([a c]) {a=8 b=4 c=2} reduced={b}"
    assert rule_text(product, array(8, 4), array(4, 2)) == expected


def test_custom_partitioning_with_an_ellipsis() -> None:
    @custom_partitioning
    def half(x):
        return x * 0.5

    half.def_partition(partition=lambda *_: None, sharding_rule="... i -> ... i")
    assert rule_text(half, array(8, 4, 2)) == "([a b c])->([a b c]) {a=8 b=4 c=2}"


def _ffi(x):
    return jax.ffi.ffi_call("foreign", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def _io(x):
    return io_callback(np.asarray, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


@pytest.mark.parametrize(
    ("fun", "name"),
    [(softmax, "softmax"), (_ffi, "foreign"), (doubled, "double"), (_io, "io_callback")],
    ids=["pallas", "ffi", "pure_callback", "io_callback"],
)
def test_an_undeclared_call_is_replicated_and_reported(fun, name, caplog) -> None:
    book, node = RuleBook(), node_of(fun, array(16, 8))
    with caplog.at_level(logging.WARNING, "meshwright"):
        book.prepare([node, node])
        book.prepare([node])
    assert not book.rule(node).splittable()
    (record,) = caplog.records
    text = record.getMessage()
    assert f"{node.op} '{name}'" in text or node.op == name
    assert str(node.source) in text
    assert "512 B" in text
    assert "mw.register_rule(" in text


def test_each_line_is_reported_once(caplog) -> None:
    def fun(x):
        first = doubled(x)
        return first, _ffi(x), _ffi(first)

    nodes = trace_program(fun, TraceOptions(), (array(16, 8),), {}).graph.nodes
    with caplog.at_level(logging.WARNING, "meshwright"):
        RuleBook().prepare(nodes)
    assert [r.getMessage().split(" at ")[0] for r in caplog.records] == [
        "pure_callback 'double'",
        "ffi_call 'foreign'",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("b s, s -> b s", "2 operands and 1 results"),
        ("b -> b", r"has 1 dims, the array has shape \(16, 8\)"),
        ("(b s) h -> (b s) h", "the size of b is not known"),
        ("b b1 -> b1 b", "b1 is 8 elements, the array's dim has 16"),
    ],
)
def test_a_rule_that_does_not_fit_is_reported_once(declare, caplog, text: str, problem: str) -> None:
    declare("double", text)
    node, book = node_of(doubled, array(16, 8)), RuleBook()
    with caplog.at_level(logging.WARNING, "meshwright"):
        book.prepare([node])
        book.prepare([node])
    assert not book.rule(node).splittable()
    (record,) = caplog.records
    assert "pure_callback 'double'" in record.getMessage()
    assert repr(text) in record.getMessage()
    assert "(f32[16,8]) -> (f32[16,8])" in record.getMessage()
    with pytest.raises(mw.ArgumentError, match=problem):
        mw.check_rule(doubled, array(16, 8))
