"""Flops, cost classes and fusion of single operations, against counts by hand."""

from __future__ import annotations

from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental.custom_partitioning import custom_partitioning

from meshwright.compiler.analysis.flops import node_flops
from meshwright.compiler.analysis.op_kind import fuses_operands, is_fusible, op_kind
from meshwright.compiler.ir import Literal, Node, Value
from meshwright.compiler.rules import FactorRule, RuleBook
from meshwright.compiler.rules.catalogue import sampled_nodes
from meshwright.compiler.rules.factor import TensorFactors
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
        (lambda x: lax.reduce_precision(x, 8, 7), (f32(8),), OpKind.ELEMENTWISE, True, True),
        (lambda x: lax.linalg.cholesky_p.bind(x), (f32(8, 8),), OpKind.OPAQUE, False, False),
        (lambda x, y: lax.igamma(x, y), (f32(8), f32(8)), OpKind.OPAQUE, False, False),
        (lambda x: lax.fft(x, "RFFT", (8,)), (f32(2, 8),), OpKind.OPAQUE, False, False),
    ],
    ids=[
        *("matmul", "convolution", "exp", "reduce", "cumsum", "transpose", "sort", "region"),
        *("reduce_precision", "library", "iteration", "fft"),
    ],
)
def test_kind_and_fusion(fun: Any, args: Any, kind: OpKind, fusible: bool, reads_fused: bool) -> None:
    node = only(fun, *args)
    assert op_kind(node) is kind
    assert is_fusible(node) is fusible
    assert fuses_operands(node) is reads_fused


def test_what_nobody_knows_is_opaque() -> None:
    """XLA cannot fuse it, and a chain must not run through it."""
    unknown = jax.extend.core.Primitive("from_a_newer_jax")
    unknown.def_abstract_eval(lambda x: x)
    node = only(lambda x: unknown.bind(x), f32(8))
    assert op_kind(node) is OpKind.OPAQUE
    assert not fuses_operands(node)


def test_a_call_with_its_own_partitioning_is_opaque() -> None:
    @custom_partitioning
    def half(x: Any) -> Any:
        return x * 0.5

    half.def_partition(partition=lambda *_: None, sharding_rule="... i -> ... i")
    node = only(lambda x: half(x), f32(8, 4))
    assert node.op == "custom_partitioning"
    assert op_kind(node) is OpKind.OPAQUE
    assert not fuses_operands(node)


def test_every_pointwise_operation_is_fused() -> None:
    """JAX's operations on single elements, told by Shardy's rules: a new one must be added to ``op_kind``."""
    book, nodes = RuleBook(), dict(sampled_nodes())
    book.prepare(nodes.values())
    pointwise = {name for name, node in nodes.items() if is_pointwise(node, book.rule(node))}
    assert len(pointwise) > 70
    calls = {"custom_linear_solve", "custom_vmap_call", "linear_call"}
    loops = {"igamma", "igamma_grad_a", "igammac", "regularized_incomplete_beta"}
    assert {name for name in pointwise if not is_fusible(nodes[name])} == calls | loops
    elementwise = {name for name, node in nodes.items() if op_kind(node) is OpKind.ELEMENTWISE}
    assert elementwise - pointwise == {"random_bits"}


def is_pointwise(node: Node, rule: FactorRule) -> bool:
    """Whether all dims of all arrays are the same free factors."""
    if rule.fixed or rule.reduced or not any(o.type.rank for o in node.operands):
        return False
    return len({(t, v.type.shape) for t, v in _arrays(node, rule)}) == 1


def _arrays(node: Node, rule: FactorRule) -> list[tuple[TensorFactors, Value | Literal]]:
    pairs = [*zip(rule.operands, node.operands, strict=True), *zip(rule.results, node.results, strict=True)]
    return [(tensor, value) for tensor, value in pairs if value.type.rank]
