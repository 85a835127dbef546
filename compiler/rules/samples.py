"""Small programs that between them use every operation whose rule can be shown without knowing its use.

``SIZELESS`` programs are made of operations that can be run on parts of their operands as they stand, because
their parameters hold no size of a dim that may be split. ``OTHERS`` hold the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

Sample = tuple[Callable[..., Any], tuple[jax.ShapeDtypeStruct, ...]]


def _array(*shape: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


X = _array(16, 8)
SQUARES = _array(4, 8, 8)
INTEGERS, WORDS = _array(16, 8, dtype="int32"), _array(16, 8, dtype="uint32")
FLAGS, COMPLEX = _array(16, 8, dtype="bool"), _array(16, 8, dtype="complex64")
KEY = jax.eval_shape(lambda: jax.random.key(0))

_REAL = (
    *(lax.abs, lax.acos, lax.acosh, lax.asin, lax.asinh, lax.atan, lax.atanh, lax.cbrt, lax.ceil, lax.cos),
    *(lax.cosh, lax.exp, lax.exp2, lax.expm1, lax.floor, lax.is_finite, lax.log, lax.log1p, lax.logistic),
    *(lax.neg, lax.round, lax.rsqrt, lax.sign, lax.sin, lax.sinh, lax.sqrt, lax.square, lax.tan, lax.tanh),
    *(lax.bessel_i0e, lax.bessel_i1e, lax.digamma, lax.erf, lax.erfc, lax.erf_inv, lax.lgamma),
    *(lax.stop_gradient, lax.optimization_barrier),
)
_REAL_PAIRS = (
    *(lax.add, lax.sub, lax.mul, lax.div, lax.max, lax.min, lax.pow, lax.rem, lax.atan2, lax.nextafter),
    *(lax.eq, lax.ne, lax.ge, lax.gt, lax.le, lax.lt, lax.complex, lax.igamma, lax.igammac),
    *(lax.polygamma, lax.zeta, lax.random_gamma_grad, lax.igamma_grad_a),
)
_INTEGER_PAIRS = (
    *(lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor, lax.mulhi),
    *(lax.shift_left, lax.shift_right_arithmetic, lax.shift_right_logical),
)


def _pool(x: Any) -> list[Any]:
    window = ((2, 1), (2, 1), "VALID")
    return [
        lax.reduce_window(x, -jnp.inf, lax.max, *window),
        lax.reduce_window(x, jnp.inf, lax.min, *window),
        lax.reduce_window(x, 0.0, lax.add, *window),
        jax.linearize(lambda y: lax.reduce_window(y, -jnp.inf, lax.max, *window), x)[1](x),
        jax.grad(lambda y: lax.reduce_window(y, -jnp.inf, lax.max, *window).sum())(x),
        lax.reduce_window(x, 1.0, lambda a, b: a * b + a, *window),
    ]


def _linear_algebra(x: Any) -> list[Any]:
    linalg = lax.linalg
    return [
        *(linalg.cholesky(x), linalg.eig(x), linalg.eigh(x), linalg.hessenberg(x), linalg.lu(x)),
        *(linalg.qr(x), linalg.schur(x), linalg.svd(x), linalg.tridiagonal(x)),
        *(linalg.householder_product(x, x[..., 0]), linalg.ormqr(x, x[..., 0], x)),
        linalg.triangular_solve(x, x),
        linalg.symmetric_product(x, x),
        linalg.cholesky_update(x[0], x[0, 0]),
        linalg.lu_pivots_to_permutation(jnp.zeros((4, 8), jnp.int32), 8),
        linalg.tridiagonal_solve(x[..., 0], x[..., 1], x[..., 2], x),
    ]


def _rows(x: Any) -> list[Any]:
    total = lax.reduce(x, 0.0, lambda a, b: a * b + a, (1,))
    return [lax.approx_max_k(x, 3), lax.stack([x, x]), lax.unstack(x), total]


def _calls(x: Any) -> list[Any]:
    """Calls that keep a program of their own, which is lowered with them."""
    batched = jax.custom_batching.custom_vmap(jnp.sin)
    batched.def_vmap(lambda _, is_batched, y: (jnp.sin(y), is_batched[0]))
    return [
        lax.custom_linear_solve(lambda y: 2.0 * y, x, lambda _, b: b / 2.0),
        jax.custom_derivatives.linear_call(lambda _, y: 2.0 * y, lambda _, y: 2.0 * y, (), x),
        lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos),
        lax.composite(lambda y: 2.0 * y, name="my.twice")(x),
        batched(x),
    ]


def _each(functions: Sequence[Callable[..., Any]], *arrays: Any) -> list[Any]:
    return [f(*arrays) for f in functions]


SIZELESS: Sequence[Sample] = (
    (lambda x: _each(_REAL, x), (X,)),
    (lambda x, y: _each(_REAL_PAIRS, x, y), (X, X)),
    (lambda x, y: _each(_INTEGER_PAIRS, x, y), (INTEGERS, INTEGERS)),
    (lambda x: [lax.bitwise_not(x), lax.clz(x), lax.population_count(x)], (INTEGERS,)),
    (lambda x: [lax.real(x), lax.imag(x), lax.conj(x)], (COMPLEX,)),
    (lambda x: [lax.integer_pow(x, 3), lax.reduce_precision(x, 8, 7)], (X,)),
    (lambda x: lax.bitcast_convert_type(x, jnp.uint32), (X,)),
    (lambda x: lax.convert_element_type(x, jnp.int32), (X,)),
    (lambda x, y, z: [lax.clamp(x, y, z), lax.betainc(x, y, z)], (X, X, X)),
    (lambda p, x, y: lax.select_n(p, x, y), (FLAGS, X, X)),
    (lambda x: jax.vjp(lambda y: (y, y), x)[1]((x, x)), (X,)),
    (lambda x: lax.copy_p.bind(x), (X,)),
    (lambda x: checkpoint_name(x, "x"), (X,)),
    (lambda x: lax.sort(x, dimension=1), (X,)),
    (lambda x: [f(x, 1) for f in (lax.cumsum, lax.cumprod, lax.cummax, lax.cummin, lax.cumlogsumexp)], (X,)),
    (lambda x: [f(x, (0,)) for f in (lax.reduce_sum, lax.reduce_max, lax.reduce_min, lax.reduce_prod)], (X,)),
    (lambda x: [f(x, (0,)) for f in (lax.reduce_and, lax.reduce_or, lax.reduce_xor)], (FLAGS,)),
    (lambda x: lax.transpose(x, (1, 0)), (X,)),
    (lambda x: lax.rev(x, (0,)), (X,)),
    (lambda x, y: lax.dot(x, y), (X, _array(8, 4))),
    (_calls, (X,)),
    (_pool, (X,)),
    (_rows, (X,)),
    (_linear_algebra, (SQUARES,)),
    (lambda x: jax.device_put(x), (X,)),
)


def _scatters(x: Any, i: Any, u: Any) -> list[Any]:
    dims = lax.ScatterDimensionNumbers(
        update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
    )
    kinds = (
        *(lax.scatter, lax.scatter_add, lax.scatter_sub),
        *(lax.scatter_mul, lax.scatter_min, lax.scatter_max),
    )
    return [f(x, i, u, dims) for f in kinds]


def _random(key: Any, raw: Any) -> list[Any]:
    return [
        jax.random.bits(key, (16, 8)),
        *(jax.random.split(key), jax.random.fold_in(key, 1), jax.random.gamma(key, 2.0, (16, 8))),
        *(jax.random.clone(key), jax.random.key(3), jax.random.key_data(key), jax.random.wrap_key_data(raw)),
        lax.rng_bit_generator(jnp.zeros(4, jnp.uint32), (16, 8)),
        lax.rng_uniform(0.0, 1.0, (16, 8)),
        jax.random.bits(raw, (16, 8)),
    ]


def _indexing(x: Any) -> list[Any]:
    return [
        *(lax.argmax(x, 1, jnp.int32), lax.argmin(x, 1, jnp.int32), lax.top_k(x, 3)),
        *(lax.iota(jnp.int32, 16), lax.broadcast(x, (4,))),
        *(lax.concatenate([x, x], 0), lax.pad(x, 0.0, ((1, 1, 0), (0, 0, 0))), lax.slice(x, (2, 0), (6, 8))),
        *(lax.split(x, (8, 8)), lax.reshape(x, (4, 4, 8)), lax.squeeze(x[:, :1], (1,))),
        *(lax.dynamic_slice(x, (3, 0), (4, 8)), lax.dynamic_update_slice(x, x[:4], (3, 0))),
        lax.tile(x, (2, 1)),
        lax.fft(x, "RFFT", (8,)),
    ]


def _gather(x: Any, i: Any) -> Any:
    dims = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    return lax.gather(x, i, dims, (1, 8))


def _convolution(x: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


OTHERS: Sequence[Sample] = (
    (_scatters, (X, _array(8, 1, dtype="int32"), _array(8, 8))),
    (_random, (KEY, _array(2, dtype="uint32"))),
    (_indexing, (X,)),
    (_gather, (X, _array(8, 1, dtype="int32"))),
    (_convolution, (_array(8, 4, 4, 2), _array(3, 3, 2, 8))),
    (lambda x, w, sizes: lax.ragged_dot(x, w, sizes), (X, _array(4, 8, 2), _array(4, dtype="int32"))),
    (lambda x: lax.empty((16, 8), jnp.float32), (X,)),
    (lambda x: jax.debug.print("{}", x), (X,)),
    (lambda x: jax.debug.callback(lambda y: None, x), (X,)),
)
