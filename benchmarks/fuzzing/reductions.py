"""Reductions, running sums, sorts and windows."""

from __future__ import annotations

import math

from .program import Var
from .scope import MAX_REACH, NotHere, Scope


def total(scope: Scope) -> None:
    """A sum, mean or variance over some dims."""
    x = scope.real(1)
    axes = some_axes(scope, x)
    reach = x.reach + growth(x, axes)
    name = scope.rng.choice(("sum", "sum", "mean", "var"))
    exact = (x.grain, reach) if name == "sum" else (None, 2 * x.reach if name == "var" else x.reach)
    scope.emit(f"jnp.{name}({x.name}, axis={axes}, keepdims={_flag(scope)})", exact)


def extreme(scope: Scope) -> None:
    """The largest or smallest over some dims."""
    x = scope.real(1)
    name = scope.rng.choice(("max", "min"))
    scope.emit(
        f"jnp.{name}({x.name}, axis={some_axes(scope, x)}, keepdims={_flag(scope)})", (x.grain, x.reach)
    )


def product(scope: Scope) -> None:
    """A product over a dim, of numbers near one."""
    x = scope.real(1)
    scope.emit(f"jnp.prod(1.0 + 0.125 * jnp.tanh({x.name}), axis={axis_of(scope, x)})")


def softmax(scope: Scope) -> None:
    """A softmax or its relatives."""
    x = scope.real(1)
    name = scope.rng.choice(
        ("jax.nn.softmax", "jax.nn.log_softmax", "jax.nn.logsumexp", "jax.nn.standardize")
    )
    text = f"{name}({x.name}, axis={axis_of(scope, x)})"
    scope.emit(text if "standardize" not in name else text[:-1] + ", epsilon=0.5)", (None, x.reach + 1))


def position(scope: Scope) -> None:
    """Where the largest or smallest is; ties go to the first."""
    x = scope.real(1, exact=True)
    name = scope.rng.choice(("argmax", "argmin"))
    scope.emit(f"jnp.{name}({x.name}, axis={axis_of(scope, x)}).astype(jnp.int32)")


def integer_total(scope: Scope) -> None:
    """Integers and flags over some dims."""
    x = scope.pick("int32", "bool", "uint32", where=lambda v: v.type.rank > 0)
    names = ("any", "all") if x.type.dtype == "bool" else ("sum", "max", "min", "prod")
    scope.emit(f"jnp.{scope.rng.choice(names)}({x.name}, axis={some_axes(scope, x)})")


def running(scope: Scope) -> None:
    """A running sum, product, extreme or log-sum along a dim, in either direction."""
    x = scope.real(1)
    axis = axis_of(scope, x)
    name = scope.rng.choice(("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"))
    operand, exact = x.name, (x.grain, x.reach)
    if name == "cumprod":
        operand, exact = f"1.0 + 0.125 * jnp.tanh({x.name})", (None, 3)
    elif name == "cumsum":
        exact = (x.grain, x.reach + growth(x, (axis,)))
    elif name == "cumlogsumexp":
        exact = (None, x.reach + 1)
    scope.emit(f"jax.lax.{name}({operand}, axis={axis}, reverse={_flag(scope)})", exact)


def associative(scope: Scope) -> None:
    """An associative scan."""
    x = scope.real(1)
    axis = axis_of(scope, x)
    text = f"jax.lax.associative_scan(jnp.add, {x.name}, axis={axis}, reverse={_flag(scope)})"
    scope.emit(text, (x.grain, x.reach + growth(x, (axis,))))


def sort(scope: Scope) -> None:
    """Sorted values."""
    x = scope.real(1)
    scope.emit(f"jnp.sort({x.name}, axis={axis_of(scope, x)})", (x.grain, x.reach))


def sort_pairs(scope: Scope) -> None:
    """A stable sort of one array by another."""
    x = scope.real(1, exact=True)
    y = scope.like(x.type.shape)
    text = f"jax.lax.sort(({x.name}, {y.name}), dimension={axis_of(scope, x)}, num_keys=1)[1]"
    scope.emit(text, (y.grain, y.reach))


def order(scope: Scope) -> None:
    """The order that sorts."""
    x = scope.real(1, exact=True)
    scope.emit(f"jnp.argsort({x.name}, axis={axis_of(scope, x)}).astype(jnp.int32)")


def largest(scope: Scope) -> None:
    """The k largest along the last dim; where they lie only if comparisons are stable."""
    x = scope.real(1)
    count = scope.rng.randint(1, x.type.shape[-1])
    text = f"jax.lax.top_k({x.name}, {count})"
    scope.emit(text if x.is_exact and not scope.is_gradient else f"{text}[0]", (x.grain, x.reach))


def window(scope: Scope) -> None:
    """A pooling window over a dim."""
    x = scope.real(1)
    axis = axis_of(scope, x)
    size = min(scope.rng.choice((1, 2, 3)), x.type.shape[axis])
    stride = scope.rng.choice((1, size))
    sizes = tuple(size if d == axis else 1 for d in range(x.type.rank))
    strides = tuple(stride if d == axis else 1 for d in range(x.type.rank))
    start, name = scope.rng.choice((("-jnp.inf", "max"), ("0.0", "add")))
    padding = scope.rng.choice(("VALID", "SAME"))
    text = f"jax.lax.reduce_window({x.name}, {start}, jax.lax.{name}, {sizes}, {strides}, '{padding}')"
    scope.emit(text, (x.grain, x.reach + 2))


def axis_of(scope: Scope, x: Var) -> int:
    """One dim of an array."""
    return scope.rng.randrange(x.type.rank)


def some_axes(scope: Scope, x: Var) -> tuple[int, ...]:
    """One or more dims of an array."""
    count = scope.rng.randint(1, x.type.rank)
    return tuple(sorted(scope.rng.sample(range(x.type.rank), count)))


def growth(x: Var, axes: tuple[int, ...]) -> int:
    """Bits by which a sum over dims exceeds its addends.

    Raises:
        NotHere: where it would be too large.
    """
    bits = math.ceil(math.log2(math.prod(x.type.shape[a] for a in axes)))
    if x.reach + bits > MAX_REACH + 4:
        raise NotHere
    return bits


def _flag(scope: Scope) -> bool:
    return scope.rng.random() < 0.3
