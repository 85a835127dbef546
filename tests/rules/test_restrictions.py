"""Splits that XLA gets wrong are taken out of rules, and only those."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.rules import FactorRule, RuleBook


def _rule(fun: Any, op: str, *shapes: tuple[int, ...]) -> FactorRule:
    specs = [jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes]
    (node,) = [n for n in trace_program(fun, TraceOptions(), specs, {}).graph.nodes if n.op == op]
    return RuleBook().rule(node)


def test_one_written_place_is_in_no_split_dim() -> None:
    rule = _rule(lambda a: a.at[3].set(0.0), "scatter", (16, 8))
    assert rule.operands[0][0][0] in rule.fixed
    assert rule.operands[0][1][0] not in rule.fixed
    several = _rule(lambda a: a.at[jnp.arange(4)].add(1.0), "scatter-add", (16, 8))
    assert several.operands[0][0][0] not in several.fixed


def test_channels_of_a_pointwise_depthwise_convolution_stay_whole() -> None:
    def depthwise(x: jax.Array, w: jax.Array) -> jax.Array:
        dims = ("NWC", "WIO", "NWC")
        return lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=dims, feature_group_count=8)

    pointwise = _rule(depthwise, "conv_general_dilated", (4, 6, 8), (1, 1, 8))
    assert set(pointwise.operands[0][2]) <= pointwise.fixed
    assert pointwise.operands[0][0][0] not in pointwise.fixed
    wide = _rule(depthwise, "conv_general_dilated", (4, 6, 8), (3, 1, 8))
    assert not set(wide.results[0][2]) <= wide.fixed
