"""Flops, cost classes and fusion of single operations, against counts by hand."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from meshwright.compiler.analysis.flops import node_flops
from meshwright.compiler.analysis.op_kind import fuses_operands, is_fusible, op_kind
from meshwright.compiler.ir import Node
from meshwright.cost_models.compute import OpKind
from tests.frontend.programs import f32, traced


def only(fun: Any, *args: Any) -> Node:
    (node,) = traced(fun, *args).graph.nodes
    return node


def _conv(x: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@pytest.mark.parametrize(
    ("fun", "args", "flops"),
    [
        (lambda x, y: lax.dot(x, y), (f32(8, 16), f32(16, 4)), 2 * 8 * 16 * 4),
        (
            lambda x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))),
            (f32(3, 8, 16), f32(3, 16, 4)),
            3 * 2 * 8 * 16 * 4,
        ),
        # 3x3 windows over 2 channels, for each of 8x4x4 places and 6 features.
        (_conv, (f32(8, 4, 4, 2), f32(3, 3, 2, 6)), 2 * (8 * 4 * 4 * 6) * (3 * 3 * 2)),
        (lambda x: x + x, (f32(5, 7),), 35),
        (lambda x: lax.reduce_sum(x, (0,)), (f32(5, 7),), 35),
        (lambda x: lax.transpose(x, (1, 0)), (f32(5, 7),), 0),
        (lambda x: lax.reshape(x, (35,)), (f32(5, 7),), 0),
        (lambda x: lax.sort(x, dimension=1), (f32(4, 8),), 4 * 8 * 3),
    ],
    ids=["matmul", "batched", "convolution", "add", "reduce", "transpose", "reshape", "sort"],
)
def test_flops(fun: Any, args: tuple[Any, ...], flops: float) -> None:
    assert node_flops(only(fun, *args)) == flops


def test_transcendentals_cost_more_than_adds() -> None:
    assert node_flops(only(lambda x: jnp.exp(x), f32(8))) > node_flops(only(lambda x: -x, f32(8)))


@pytest.mark.parametrize(
    ("fun", "args", "kind", "fusible", "reads_fused"),
    [
        (lambda x, y: lax.dot(x, y), (f32(8, 4), f32(4, 2)), OpKind.MATMUL, False, False),
        (_conv, (f32(8, 4, 4, 2), f32(3, 3, 2, 6)), OpKind.CONVOLUTION, False, False),
        (lambda x: jnp.exp(x), (f32(8),), OpKind.ELEMENTWISE, True, True),
        (lambda x: lax.reduce_max(x, (0,)), (f32(8, 2),), OpKind.REDUCTION, False, True),
        (lambda x: lax.cumsum(x), (f32(8),), OpKind.REDUCTION, False, True),
        (lambda x: lax.transpose(x, (1, 0)), (f32(8, 2),), OpKind.DATA_MOVEMENT, True, True),
        (lambda x: lax.sort(x), (f32(8),), OpKind.DATA_MOVEMENT, False, False),
        (jax.checkpoint(lambda x: jnp.exp(x)), (f32(8),), OpKind.OPAQUE, False, False),
    ],
    ids=["matmul", "convolution", "exp", "reduce", "cumsum", "transpose", "sort", "region"],
)
def test_kind_and_fusion(fun: Any, args: Any, kind: OpKind, fusible: bool, reads_fused: bool) -> None:
    node = only(fun, *args)
    assert op_kind(node) is kind
    assert is_fusible(node) is fusible
    assert fuses_operands(node) is reads_fused
