"""The table of operations whose rules are run on shards; see ``shard_execution``."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.rules.shard_execution import Case

X = (16, 8)
POSITIVE_DEFINITE = np.eye(4, dtype=np.float32) + 0.5 * np.ones((2, 4, 4), np.float32)
UNITS = np.linspace(0.1, 0.9, 128, dtype=np.float32).reshape(X)
FLAGS = np.arange(128).reshape(X) % 3 == 0
INDICES = np.array([[3], [0], [15], [7], [3], [1], [9], [12]], np.int32)
THREE, ZERO = np.array(3, np.int32), np.array(0, np.int32)

OFFSET = "positions count from the start of the whole dim: a shard needs its offset"
ROUTED = "indices address the whole dim: a shard must mask those outside its part"
ADDEND = "the operand is an addend, to be counted on one shard only"


def _elementwise(name: str, fun) -> Case:
    return Case(name, lambda x, shapes: fun(x), (X,), 2)


def _binary(name: str, fun) -> Case:
    return Case(name, lambda x, y, shapes: fun(x, y), (X, X), 2)


def _reduce(name: str, fun, combine=None) -> Case:
    return Case(name, lambda x, shapes: fun(x, (0,)), (X,), 2, combine=combine)


def _convolution(x, kernel, shapes):
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _depthwise(x, kernel, shapes):
    return lax.conv_general_dilated(
        x, kernel, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=x.shape[-1]
    )


ELEMENTWISE = [
    _elementwise("neg", lax.neg),
    _elementwise("exp", lax.exp),
    _elementwise("log", lax.log),
    _elementwise("tanh", lax.tanh),
    _elementwise("logistic", lax.logistic),
    _elementwise("sin", lax.sin),
    _elementwise("rsqrt", lax.rsqrt),
    _elementwise("sqrt", lax.sqrt),
    _elementwise("erf", lax.erf),
    _elementwise("tan", lax.tan),
    _elementwise("lgamma", lax.lgamma),
    _elementwise("abs", lax.abs),
    _elementwise("sign", lax.sign),
    _elementwise("floor", lax.floor),
    _elementwise("square", lax.square),
    _elementwise("integer_pow", lambda x: lax.integer_pow(x, 3)),
    _elementwise("is_finite", lax.is_finite),
    _elementwise("convert_element_type", lambda x: lax.convert_element_type(x, jnp.int32)),
    _elementwise("reduce_precision", lambda x: lax.reduce_precision(x, 8, 7)),
    _elementwise("stop_gradient", lax.stop_gradient),
    _binary("add", lax.add),
    _binary("sub", lax.sub),
    _binary("mul", lax.mul),
    _binary("div", lax.div),
    _binary("max", lax.max),
    _binary("min", lax.min),
    _binary("pow", lax.pow),
    _binary("atan2", lax.atan2),
    _binary("gt", lax.gt),
    _binary("eq", lax.eq),
    Case("select_n", lambda p, x, y, shapes: lax.select_n(p, x, y), (FLAGS, X, X), 2),
    Case("clamp", lambda x, shapes: lax.clamp(np.float32(0.7), x, np.float32(1.2)), (X,), 2),
    Case("not", lambda x, shapes: lax.bitwise_not(x), (FLAGS,), 2),
]

REDUCTIONS = [
    _reduce("reduce_sum", lax.reduce_sum),
    _reduce("reduce_max", lax.reduce_max, np.maximum),
    _reduce("reduce_min", lax.reduce_min, np.minimum),
    _reduce("reduce_prod", lax.reduce_prod, np.multiply),
    Case("reduce_and", lambda x, shapes: lax.reduce_and(x, (1,)), (FLAGS,), 2, combine=np.logical_and),
    Case("reduce_or", lambda x, shapes: lax.reduce_or(x, (1,)), (FLAGS,), 2, combine=np.logical_or),
    Case("argmax", lambda x, shapes: lax.argmax(x, 1, jnp.int32), (X,), 2, skip={1: OFFSET}),
    Case("argmin", lambda x, shapes: lax.argmin(x, 0, jnp.int32), (X,), 2, skip={0: OFFSET}),
    Case("cumsum", lambda x, shapes: lax.cumsum(x, 0), (X,), 1),
    Case("cummax", lambda x, shapes: lax.cummax(x, 1), (X,), 1),
    Case("sort", lambda x, shapes: lax.sort(x, dimension=1), (X,), 1),
    Case("sort", lambda x, y, shapes: lax.sort((x, y), dimension=0, num_keys=1), (X, X), 1, "pairs"),
    Case("top_k", lambda x, shapes: lax.top_k(x, 3), (X,), 1),
    Case(
        "reduce_window_sum",
        lambda x, shapes: lax.reduce_window(x, 0.0, lax.add, (2, 1), (2, 1), "VALID"),
        (X,),
        1,
    ),
]

CONTRACTIONS = [
    Case("dot_general", lambda x, y, shapes: lax.dot(x, y), ((8, 16), (16, 4)), 3, "matmul"),
    Case(
        "dot_general",
        lambda x, y, shapes: lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))),
        ((4, 8, 16), (4, 16, 2)),
        4,
        "batched",
    ),
    Case(
        "dot_general",
        lambda x, y, shapes: lax.dot_general(x, y, (((1, 2), (0, 2)), ((), ()))),
        ((4, 8, 2), (8, 6, 2)),
        4,
        "two-contracted",
    ),
    Case("conv_general_dilated", _convolution, ((8, 4, 4, 2), (3, 3, 2, 8)), 3),
    Case("conv_general_dilated", _depthwise, ((8, 6, 4), (3, 1, 4)), 2, "depthwise"),
]

MOVEMENT = [
    Case("transpose", lambda x, shapes: lax.transpose(x, (2, 0, 1)), ((4, 8, 2),), 3),
    Case("reshape", lambda x, shapes: lax.reshape(x, shapes[0] if shapes else (4, 4, 8)), (X,), 3, "split"),
    Case("reshape", lambda x, shapes: lax.reshape(x, shapes[0] if shapes else (128,)), (X,), 2, "merge"),
    Case("reshape", lambda x, shapes: lax.reshape(x, shapes[0] if shapes else (8, 16)), (X,), 3, "regroup"),
    # Halves of the whole are halves of both; thirds and quarters are not.
    Case("reshape", lambda x, shapes: lax.reshape(x, shapes[0] if shapes else (8, 3)), ((6, 4),), 1, "odd"),
    Case("reshape", lambda x, shapes: lax.reshape(x, (5, 3)), ((3, 5),), 0, "coprime"),
    Case("squeeze", lambda x, shapes: lax.squeeze(x, (1,)), ((16, 1, 8),), 2),
    Case(
        "broadcast_in_dim",
        lambda x, shapes: lax.broadcast_in_dim(x, shapes[0] if shapes else (4, 16, 8), (1, 2)),
        (X,),
        3,
    ),
    Case(
        "broadcast_in_dim",
        lambda x, shapes: lax.broadcast_in_dim(x, shapes[0] if shapes else (16, 8), (0, 1)),
        ((16, 1),),
        2,
        "stretched",
    ),
    Case(
        "slice",
        lambda x, shapes: lax.slice(x, (2, 0), (6, x.shape[1])),
        (X,),
        1,
    ),
    Case("rev", lambda x, shapes: lax.rev(x, (0,)), (X,), 1),
    Case("concatenate", lambda x, y, shapes: lax.concatenate((x, y), 0), (X, (4, 8)), 1),
    Case("pad", lambda x, shapes: lax.pad(x, np.float32(0), ((1, 1, 0), (0, 0, 0))), (X,), 1),
    Case("split", lambda x, shapes: lax.split(x, (8, 8)), (X,), 1),
    Case(
        "dynamic_slice",
        lambda x, i, j, shapes: lax.dynamic_slice_p.bind(x, i, j, slice_sizes=(4, x.shape[1])),
        (X, THREE, ZERO),
        1,
    ),
    Case(
        "dynamic_update_slice",
        lambda x, u, i, j, shapes: lax.dynamic_update_slice_p.bind(x, u, i, j),
        (X, (4, 8), THREE, ZERO),
        1,
    ),
    Case("bitcast_convert_type", lambda x, shapes: lax.bitcast_convert_type(x, jnp.uint16), (X,), 2),
]


def _gather(x, i, shapes):
    dims = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    return lax.gather(x, i, dims, (1, x.shape[1]))


def _scatter(fun):
    dims = lax.ScatterDimensionNumbers(
        update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
    )
    return lambda x, i, u, shapes: fun(x, i, u, dims)


ROUTING = [
    Case("gather", _gather, (X, INDICES), 3, skip={0: ROUTED}),
    Case("scatter-add", _scatter(lax.scatter_add), (X, INDICES, (8, 8)), 3, skip={0: ROUTED, 2: ADDEND}),
    Case(
        "scatter-add",
        _scatter(lax.scatter_add),
        (np.zeros(X, np.float32), INDICES, (8, 8)),
        3,
        "into-zeros",
        skip={0: ROUTED},
    ),
    Case("scatter", _scatter(lax.scatter), (X, INDICES, (8, 8)), 2, skip={0: ROUTED}),
    Case("iota", lambda shapes: lax.iota(jnp.int32, shapes[0][0] if shapes else 16), (), 1, skip={0: OFFSET}),
    Case(
        "iota",
        lambda shapes: lax.broadcasted_iota(jnp.int32, shapes[0] if shapes else X, 0),
        (),
        2,
        "second-dim",
        skip={0: OFFSET},
    ),
]


def _special(name: str, fun, operands: int = 2) -> Case:
    return Case(name, lambda *xs: fun(*xs[:-1]), (UNITS,) * operands, 2)


TRANSFORMS = [
    _special("igamma", lax.igamma),
    _special("igammac", lax.igammac),
    _special("igamma_grad_a", lax.igamma_grad_a),
    _special("regularized_incomplete_beta", lax.betainc, 3),
    Case("lu", lambda x, shapes: lax.linalg.lu(x), ((4, 2, 6, 5),), 2),
    Case("lu", lambda x, shapes: lax.linalg.lu(x), ((6, 5),), 0, "single"),
    Case(
        "lu_pivots_to_permutation",
        lambda x, shapes: lax.linalg.lu_pivots_to_permutation(x, 6),
        (np.array([[2, 3, 2], [5, 1, 4]], np.int32),),
        1,
    ),
    Case("cholesky", lambda x, shapes: lax.linalg.cholesky_p.bind(x), (POSITIVE_DEFINITE,), 1),
    Case("fft", lambda x, shapes: lax.fft(x, "FFT", (x.shape[1],)), (np.ones(X, np.complex64),), 1),
]

CASES = [*ELEMENTWISE, *REDUCTIONS, *CONTRACTIONS, *MOVEMENT, *ROUTING, *TRANSFORMS]
