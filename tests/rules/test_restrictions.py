"""Splits that XLA gets wrong are taken out of rules, and only those."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.rules import FactorRule, RuleBook
from meshwright.compiler.rules.local_call import planned_call


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


_NHWC = ("NHWC", "HWIO", "NHWC")
# The kernel's gradient of a depthwise convolution, as JAX writes it.
_GRADIENT = lax.ConvDimensionNumbers((3, 0, 1, 2), (3, 0, 1, 2), (2, 3, 0, 1))
CONVOLUTIONS: dict[str, tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]] = {
    "features": ({"feature_group_count": 2, "dimension_numbers": _NHWC}, (2, 4, 4, 8), (3, 3, 4, 8)),
    "depthwise": ({"feature_group_count": 8, "dimension_numbers": _NHWC}, (2, 4, 4, 8), (3, 3, 1, 8)),
    "kernel's gradient": ({"dimension_numbers": _GRADIENT}, (4, 4, 4, 8), (4, 4, 4, 8)),
    "batches of two": ({"batch_group_count": 4, "dimension_numbers": _GRADIENT}, (4, 4, 4, 8), (4, 4, 4, 8)),
    "batches": ({"batch_group_count": 8, "dimension_numbers": _GRADIENT}, (4, 4, 4, 8), (4, 4, 4, 8)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_every_split_of_a_convolution_is_executed_right(name: str) -> None:
    options, *shapes = CONVOLUTIONS[name]

    def convolution(x: jax.Array, w: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1)), **options)

    specs = [jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes]
    (node,) = trace_program(convolution, TraceOptions(), specs, {}).graph.nodes
    rule, mesh = RuleBook().rule(node), jax.make_mesh((2, 4), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s, np.float32) for s in shapes]
    splittable = [f for f in rule.splittable() if rule.sizes[f] % 2 == 0]
    assert splittable
    for factor in splittable:
        tensors = (*rule.operands, *rule.results)
        layout = [P(*("a" if dim[:1] == (factor,) else None for dim in tensor)) for tensor in tensors]
        shardings = [NamedSharding(mesh, spec) for spec in layout]

        def run(*xs: jax.Array, layout: Any = layout) -> Any:
            return planned_call(node, mesh, layout, xs) or [convolution(*xs)]

        (found,) = jax.jit(run, in_shardings=tuple(shardings[:2]), out_shardings=[shardings[2]])(*arrays)
        np.testing.assert_allclose(found, convolution(*arrays), rtol=1e-4, atol=1e-4, err_msg=str(layout))
