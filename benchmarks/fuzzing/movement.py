"""Operations that move elements and compute nothing."""

from __future__ import annotations

import math

from .program import Var
from .reductions import axis_of
from .scope import DIMS, MAX_RANK, NotHere, Scope


def reshape(scope: Scope) -> None:
    """The same elements in other dims."""
    x = _any(scope, 0)
    _move(scope, x, f"jnp.reshape({{0}}, {_regrouped(scope, math.prod(x.type.shape))})")


def _regrouped(scope: Scope, count: int) -> tuple[int, ...]:
    sizes: list[int] = []
    for _ in range(scope.rng.randint(0, 2)):
        divisors = [d for d in DIMS if count % d == 0]
        sizes.append(scope.rng.choice(divisors))
        count //= sizes[-1]
    return (*sizes, count)


def transpose(scope: Scope) -> None:
    """Dims in another order."""
    x = _any(scope, 2)
    order = tuple(scope.rng.sample(range(x.type.rank), x.type.rank))
    _move(scope, x, f"jnp.transpose({{0}}, {order})")


def broadcast(scope: Scope) -> None:
    """Repeats along new leading dims."""
    x = _any(scope, 0)
    _move(scope, x, f"jnp.broadcast_to({{0}}, {(scope.rng.choice(DIMS), *x.type.shape)})")


def squeeze(scope: Scope) -> None:
    """Drops dims of size one."""
    x = scope.pick("float32", "int32", "bool", where=lambda v: 1 in v.type.shape)
    _move(scope, x, f"jnp.squeeze({{0}}, axis={x.type.shape.index(1)})")


def expand(scope: Scope) -> None:
    """A new dim of size one."""
    x = _any(scope, 0)
    _move(scope, x, f"jnp.expand_dims({{0}}, axis={scope.rng.randint(0, x.type.rank)})")


def cut(scope: Scope) -> None:
    """A slice with a stride."""
    x = _any(scope, 1)
    starts, limits, strides = [], [], []
    for size in x.type.shape:
        start = scope.rng.randrange(size) if scope.rng.random() < 0.5 else 0
        starts.append(start)
        limits.append(scope.rng.randint(start + 1, size) if scope.rng.random() < 0.5 else size)
        strides.append(scope.rng.choice((1, 1, 2)))
    _move(scope, x, f"jax.lax.slice({{0}}, {tuple(starts)}, {tuple(limits)}, {tuple(strides)})")


def pad(scope: Scope) -> None:
    """Padding before, after and between, some of it negative."""
    x = _any(scope, 1)
    config = [
        scope.rng.choice(((0, 0, 0), (1, 0, 0), (2, 2, 0), (0, 1, 1), (-1, 1, 0))) for _ in x.type.shape
    ]
    zero = {"float32": "0.5", "int32": "3", "bool": "False"}[x.type.dtype]
    _move(scope, x, f"jax.lax.pad({{0}}, jnp.array({zero}, {{0}}.dtype), {tuple(config)})")


def reverse(scope: Scope) -> None:
    """A dim backwards."""
    x = _any(scope, 1)
    _move(scope, x, f"jnp.flip({{0}}, axis={axis_of(scope, x)})")


def join(scope: Scope) -> None:
    """Arrays end to end, or stacked."""
    x = _any(scope, 1)
    axis = axis_of(scope, x)

    def fits(v: Var) -> bool:
        return v.type.rank == x.type.rank and _without(v, axis) == _without(x, axis)

    parts = [x, *(scope.pick(x.type.dtype, where=fits) for _ in range(scope.rng.randint(1, 2)))]
    names = ", ".join(p.name for p in parts)
    same = all(p.type == x.type for p in parts)
    text = f"jnp.stack([{names}], axis={axis})" if same and _half(scope) else None
    grains = [p.grain for p in parts]
    grain = None if None in grains else max(g for g in grains if g is not None)
    scope.emit(text or f"jnp.concatenate([{names}], axis={axis})", (grain, max(p.reach for p in parts)))


def split(scope: Scope) -> None:
    """Equal parts of a dim."""
    x = scope.pick("float32", "int32", where=lambda v: any(s % 2 == 0 for s in v.type.shape))
    axis = scope.rng.choice([d for d, s in enumerate(x.type.shape) if s % 2 == 0])
    _move(scope, x, f"jnp.split({{0}}, 2, axis={axis})")


def roll(scope: Scope) -> None:
    """A rotation along a dim."""
    x = _any(scope, 1)
    _move(scope, x, f"jnp.roll({{0}}, {scope.rng.choice((-1, 1, 2, 5))}, axis={axis_of(scope, x)})")


def repeat(scope: Scope) -> None:
    """Each element, or the whole, several times."""
    x = _any(scope, 1)
    axis = axis_of(scope, x)
    if _half(scope):
        _move(scope, x, f"jnp.repeat({{0}}, 2, axis={axis})")
        return
    counts = tuple(2 if d == axis else 1 for d in range(x.type.rank))
    _move(scope, x, f"jnp.tile({{0}}, {counts})")


def diagonal(scope: Scope) -> None:
    """A triangle of a matrix, the rest zero."""
    x = scope.real(2)
    name = scope.rng.choice(("tril", "triu"))
    _move(scope, x, f"jnp.{name}({{0}}, {scope.rng.randint(-1, 2)})")


def copy(scope: Scope) -> None:
    """A value that the optimizer must not look through."""
    x = _any(scope, 0)
    _move(scope, x, scope.rng.choice(("jnp.copy({0})", "jax.lax.optimization_barrier({0})")))


def _any(scope: Scope, min_rank: int) -> Var:
    return scope.pick("float32", "float32", "int32", "bool", where=lambda v: v.type.rank >= min_rank)


def _move(scope: Scope, x: Var, template: str) -> None:
    if x.type.rank > MAX_RANK:
        raise NotHere
    scope.emit(template.format(x.name), (x.grain, x.reach))


def _without(x: Var, axis: int) -> tuple[int, ...]:
    return x.type.shape[:axis] + x.type.shape[axis + 1 :]


def _half(scope: Scope) -> bool:
    return scope.rng.random() < 0.5
