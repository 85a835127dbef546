"""Products of matrices, convolutions, transforms and linear algebra on well-conditioned matrices."""

from __future__ import annotations

import math

from .program import Var
from .reductions import axis_of
from .scope import DIMS, MAX_REACH, NotHere, Scope

_SMALL = MAX_REACH // 2


def dot(scope: Scope) -> None:
    """A product with contracted and batch dims anywhere."""
    x = scope.real(1, max_reach=_SMALL)
    y = scope.real(1, max_reach=_SMALL)
    left, right = list(range(x.type.rank)), list(range(y.type.rank))
    batch = _matches(scope, x, y, left, right, scope.rng.choice((0, 0, 1)))
    contracted = _matches(scope, x, y, left, right, scope.rng.choice((1, 1, 1, 2, 0)))
    if not contracted and not batch:
        raise NotHere
    sizes = [x.type.shape[i] for i, _ in contracted]
    scope.emit(
        f"jax.lax.dot_general({x.name}, {y.name}, ({_sides(contracted)}, {_sides(batch)}))",
        _summed(x, y, sizes),
    )


def matmul(scope: Scope) -> None:
    """Rows times a matrix of weights."""
    x = scope.real(1, max_reach=_SMALL)
    inner = x.type.shape[-1]
    w = scope.like((inner, scope.rng.choice(DIMS)))
    if w.reach > _SMALL:
        raise NotHere
    scope.emit(f"{x.name} @ {w.name}", _summed(x, w, [inner]))


def low_precision(scope: Scope) -> None:
    """A product in bfloat16, summed in float32."""
    x = scope.real(1, max_reach=_SMALL)
    w = scope.like((x.type.shape[-1], scope.rng.choice(DIMS)))
    halves = f"{x.name}.astype(jnp.bfloat16), {w.name}.astype(jnp.bfloat16)"
    reach = _summed(x, w, [x.type.shape[-1]])[1]
    scope.emit(f"jnp.matmul({halves}, preferred_element_type=jnp.float32)", (None, reach))


def attention(scope: Scope) -> None:
    """Products of one array with itself over two letters."""
    x = scope.real(3, max_reach=_SMALL)
    if x.type.rank != 3:
        raise NotHere
    spec, summed = scope.rng.choice((("bqd,bkd->bqk", 2), ("bqd,bqe->bde", 1), ("bqd,cqd->bc", 1)))
    sizes = [x.type.shape[summed], *([x.type.shape[2]] if spec.endswith("bc") else [])]
    scope.emit(f"jnp.einsum('{spec}', {x.name}, {x.name})", _summed(x, x, sizes))


def convolution(scope: Scope) -> None:
    """A convolution in one or two dims: strided, dilated, padded, grouped."""
    x = scope.real(3, max_reach=_SMALL)
    spatial = x.type.rank - 2
    channels = x.type.shape[-1]
    groups = scope.rng.choice((1, 1, 2, channels))
    if channels % groups or any(s < 2 for s in x.type.shape[1:-1]):
        raise NotHere
    kernel = tuple(scope.rng.choice((1, 2)) for _ in range(spatial))
    w = scope.like((*kernel, channels // groups, groups * scope.rng.choice((1, 2, 4))))
    form = "('NWC', 'WIO', 'NWC')" if spatial == 1 else "('NHWC', 'HWIO', 'NHWC')"
    stride, dilation = scope.rng.choice((1, 1, 2)), scope.rng.choice((1, 1, 2))
    padding = scope.rng.choice(("SAME", "VALID")) if dilation == 1 else "SAME"
    options = f"rhs_dilation={(dilation,) * spatial}, dimension_numbers={form}, feature_group_count={groups}"
    text = f"jax.lax.conv_general_dilated({x.name}, {w.name}, {(stride,) * spatial}, '{padding}', {options})"
    scope.emit(text, _summed(x, w, [*kernel, channels // groups]))


def fourier(scope: Scope) -> None:
    """A Fourier transform along the last dim."""
    if scope.rng.random() < 0.4:
        z = scope.pick("complex64", where=lambda v: v.type.rank > 0 and v.reach <= _SMALL)
        name = scope.rng.choice(("fft", "ifft"))
        scope.emit(f"jnp.fft.{name}({z.name})", (None, z.reach + 4))
        return
    x = scope.real(1, max_reach=_SMALL)
    text = scope.rng.choice(
        ("jnp.fft.fft({0})", "jnp.fft.rfft({0})", "jnp.fft.irfft(jnp.fft.rfft({0}), n={1})")
    )
    scope.emit(text.format(x.name, x.type.shape[-1]), (None, x.reach + 4))


def cholesky(scope: Scope) -> None:
    """The factor of a matrix that is far from singular."""
    scope.emit(f"jnp.linalg.cholesky({_positive(scope, scope.real(2))})", (None, 3))


def solve(scope: Scope) -> None:
    """A linear system, by elimination or with a triangle."""
    x = scope.real(2)
    matrix, size = _positive(scope, x), x.type.shape[-2]
    right = scope.like((*x.type.shape[:-2], size, scope.rng.choice(DIMS[:4]))).name
    text = scope.rng.choice(
        (
            "jnp.linalg.solve({0}, {1})",
            "jax.scipy.linalg.solve_triangular({0}, {1}, lower=True)",
        )
    )
    scope.emit(text.format(matrix, right), (None, 6))


def outer(scope: Scope) -> None:
    """Every pair of elements of two lines."""
    x, y = scope.real(1, max_reach=_SMALL), scope.real(1, max_reach=_SMALL)
    if x.type.rank + y.type.rank > 3:
        raise NotHere
    axis = axis_of(scope, x)
    text = f"jnp.tensordot({x.name}, {y.name}, axes=0)"
    scope.emit(f"jnp.moveaxis({text}, {axis}, -1)", _summed(x, y, []))


def _positive(scope: Scope, x: Var) -> str:
    """Text of a matrix with eigenvalues between 1 and 2 and the rows of an array."""
    size = x.type.shape[-2]
    bounded = f"jnp.tanh({x.name})"
    scale = size * x.type.shape[-1]
    return f"(jnp.eye({size}) + {bounded} @ jnp.swapaxes({bounded}, -1, -2) / {scale})"


def _matches(
    scope: Scope, x: Var, y: Var, left: list[int], right: list[int], count: int
) -> list[tuple[int, int]]:
    """Pairs of equal dims that are still free, which are then taken."""
    chosen = []
    for _ in range(count):
        free = [(i, j) for i in left for j in right if x.type.shape[i] == y.type.shape[j]]
        if free:
            i, j = scope.rng.choice(free)
            left.remove(i)
            right.remove(j)
            chosen.append((i, j))
    return chosen


def _sides(pairs: list[tuple[int, int]]) -> str:
    """Text of pairs of dims as ``dot_general`` takes them: those of the left, those of the right."""
    return repr((tuple(i for i, _ in pairs), tuple(j for _, j in pairs)))


def _summed(x: Var, y: Var, sizes: list[int]) -> tuple[int | None, int]:
    bits = math.ceil(math.log2(max(math.prod(sizes), 1)))
    reach = x.reach + y.reach + bits
    if reach > MAX_REACH + 4:
        raise NotHere
    grain = None if x.grain is None or y.grain is None else x.grain + y.grain
    return grain, reach
