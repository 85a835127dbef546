"""Rules of random numbers: what may be split gives, split over devices, the numbers of one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.ir import Node
from meshwright.compiler.rules import FactorRule
from tests.rules.shard_execution import BOOK

KEY = jax.random.key(7)
ALPHA = jnp.linspace(0.5, 4.0, 128).reshape(16, 8)


def rule_of(op: str, fun: Callable[..., Any], *args: Any) -> FactorRule:
    nodes: list[Node] = [n for n in trace_program(fun, TraceOptions(), args, {}).graph.nodes if n.op == op]
    assert len(nodes) == 1
    return BOOK.rule(nodes[0])


@pytest.mark.parametrize(
    ("op", "fun", "text"),
    [
        ("random_bits", lambda a: jax.random.bits(KEY, a.shape), "([])->([a b]) {a=16 b=8}"),
        (
            "random_gamma",
            lambda a: jax.random.gamma(KEY, a),
            "([], [a b])->([a c]) {a=16 b=8 c=8} fixed={b,c}",
        ),
    ],
)
def test_split_numbers_are_those_of_one_device(devices, op: str, fun: Any, text: str) -> None:
    rule = rule_of(op, fun, ALPHA)
    assert str(rule) == text
    mesh = Mesh(np.array(devices), ("a",))
    for factor in rule.splittable():
        spec = P(*("a" if factor in dim else None for dim in rule.results[0]))
        split = jax.jit(fun, in_shardings=NamedSharding(mesh, spec), out_shardings=NamedSharding(mesh, spec))
        compiled = split.lower(ALPHA).compile()
        assert " all-gather" not in str(compiled.as_text())
        np.testing.assert_allclose(
            compiled(jax.device_put(ALPHA, NamedSharding(mesh, spec))), jax.jit(fun)(ALPHA), rtol=1e-6
        )


def test_gamma_of_many_keys_is_split_along_them() -> None:
    keys = jax.random.split(KEY, 4)
    rule = rule_of("random_gamma", lambda k, a: jax.vmap(jax.random.gamma)(k, a), keys, ALPHA[:4])
    assert str(rule) == "([a], [a b])->([a c]) {a=4 b=8 c=8} fixed={b,c}"


@pytest.mark.parametrize(
    ("op", "fun"),
    [
        ("rng_uniform", lambda: lax.rng_uniform(0.0, 1.0, (16, 8))),
        ("rng_bit_generator", lambda: lax.rng_bit_generator(jnp.zeros(4, jnp.uint32), (16, 8))),
        ("random_bits", lambda: jax.random.bits(jax.random.key(0, impl="rbg"), (16, 8))),
    ],
)
def test_what_depends_on_the_size_drawn_is_drawn_whole(op: str, fun: Any) -> None:
    rule = rule_of(op, fun)
    assert not rule.splittable()
    assert len(rule.results[-1]) == 2
