"""The list of operations: complete, with its checks in place, and the operations it says are run on parts."""

from __future__ import annotations

from typing import Any

import jax
import jax.extend.core.primitives
import numpy as np
import pytest

from meshwright.compiler.frontend import importer
from meshwright.compiler.ir import Literal, Node, Operand
from meshwright.compiler.jax_compat import bind
from meshwright.compiler.rules.catalogue import INLINED, SHARD_CASES, counts, operations, sizeless_nodes
from tests.rules.cases import CASES
from tests.rules.shard_execution import BOOK, cut

NODES = {node.op: node for node in sizeless_nodes()}
LISTED = {op.name: op for op in operations()}
PARTS = 2


def _array(operand: Operand) -> Any:
    if isinstance(operand, Literal):
        return operand.value
    rng, type_ = np.random.default_rng(operand.index), operand.type
    if type_.dtype == "bool":
        return rng.integers(0, 2, type_.shape).astype(bool)
    if "int" in type_.dtype:
        return rng.integers(0, 4, type_.shape).astype(type_.dtype)
    return np.asarray(rng.uniform(0.1, 0.9, type_.shape)).astype(type_.dtype)


def _run(node: Node, operands: list[Any]) -> list[np.ndarray]:
    return [np.asarray(x) for x in bind(node.primitive, operands, node.params)]


@pytest.mark.parametrize("name", sorted(NODES))
def test_parts_of_operations_are_parts_of_the_whole(name: str) -> None:
    node, rule = NODES[name], BOOK.rule(NODES[name])
    operands = [_array(o) for o in node.operands]
    whole = _run(node, operands)
    for factor in rule.splittable():

        def part_of(array: Any, tensor: Any, part: int, factor: int = factor) -> Any:
            return cut(np.asarray(array), tensor, rule.sizes, factor, PARTS, part)

        made = [
            _run(node, [part_of(x, t, i) for x, t in zip(operands, rule.operands, strict=True)])
            for i in range(PARTS)
        ]
        for port, expected in enumerate(whole):
            tensor, found = rule.results[port], [m[port] for m in made]
            if factor in rule.reduced:
                total = np.bitwise_xor(*found) if name == "reduce_xor" else np.sum(found, axis=0)
                np.testing.assert_allclose(total, expected, rtol=1e-4)
                continue
            for i, part in enumerate(found):
                np.testing.assert_allclose(part, part_of(expected, tensor, i), rtol=1e-4, atol=1e-5)


def test_jax_itself_names_no_operation_that_is_not_listed() -> None:
    public = vars(jax.extend.core.primitives).values()
    names = {p.name for p in public if isinstance(p, jax.extend.core.Primitive)}
    assert len(names) > 150
    assert names <= set(LISTED)


def test_every_checked_operation_names_a_test_that_has_it() -> None:
    assert {case.op for case in CASES} == SHARD_CASES, "SHARD_CASES in catalogue.py is out of date"
    shards = {op.name for op in LISTED.values() if op.checked.endswith("test_shard_execution.py")}
    parts = {op.name for op in LISTED.values() if op.checked.endswith("test_catalogue.py")}
    assert shards <= SHARD_CASES
    assert parts <= set(NODES)
    assert len(parts) > 60


def test_every_split_operation_is_checked_or_says_why_not() -> None:
    split = [op for op in LISTED.values() if op.origin in ("Shardy", "hand-written") and "[a" in op.rule]
    unchecked = [op.name for op in split if not op.checked and "fixed={a}" not in op.rule]
    assert not unchecked


def test_inlined_calls_are_those_of_the_importer() -> None:
    assert set(importer._INLINED) == INLINED


def test_origins_add_up() -> None:
    found = counts(LISTED.values())
    assert sum(found.values()) == len(LISTED)
    assert found["Shardy"] > 100
    assert LISTED["top_k"].origin == "hand-written"
    assert LISTED["pallas_call"].origin == "opaque"
    assert LISTED["scan"].origin == "region"
    assert LISTED["psum"].origin == "manual region"
    assert LISTED["program_id"].origin == "kernel"
