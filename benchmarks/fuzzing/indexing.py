"""Reads and writes at computed places, one-hot codes, counters and random numbers."""

from __future__ import annotations

from .program import KEY, Var
from .reductions import axis_of, growth
from .scope import DIMS, MAX_REACH, NotHere, Scope


def dynamic_slice(scope: Scope) -> None:
    """A window at a computed place, clamped at the ends."""
    x = scope.real(1)
    sizes = tuple(scope.rng.randint(1, s) if scope.rng.random() < 0.5 else s for s in x.type.shape)
    scope.emit(f"jax.lax.dynamic_slice({x.name}, {_starts(scope, x)}, {sizes})", (x.grain, x.reach))


def dynamic_update_slice(scope: Scope) -> None:
    """A window at a computed place overwritten."""
    x = scope.real(1)
    sizes = tuple(scope.rng.randint(1, s) if scope.rng.random() < 0.5 else s for s in x.type.shape)
    part = scope.like(sizes)
    text = f"jax.lax.dynamic_update_slice({x.name}, {part.name}, {_starts(scope, x)})"
    scope.emit(text, (None, max(x.reach, part.reach)))


def take(scope: Scope) -> None:
    """Rows of a table by computed numbers, which wrap at its end."""
    x = scope.real(1)
    axis = axis_of(scope, x)
    index = _indices(scope, x.type.shape[axis])
    scope.emit(f"jnp.take({x.name}, {index}, axis={axis})", (x.grain, x.reach))


def take_along(scope: Scope) -> None:
    """An element of each line."""
    x = scope.real(1)
    axis = axis_of(scope, x)
    shape = tuple(scope.rng.choice(DIMS[:4]) if d == axis else s for d, s in enumerate(x.type.shape))
    index = scope.like(shape, "int32")
    text = f"jnp.take_along_axis({x.name}, {index.name} % {x.type.shape[axis]}, axis={axis})"
    scope.emit(text, (x.grain, x.reach))


def pairs(scope: Scope) -> None:
    """Elements addressed by two dims at once."""
    x = scope.real(2)
    count = scope.rng.choice(DIMS)
    rows = scope.like((count,), "int32").name
    text = f"{x.name}[{rows} % {x.type.shape[0]}, ({rows} * 3) % {x.type.shape[1]}]"
    scope.emit(text, (x.grain, x.reach))


def scatter_set(scope: Scope) -> None:
    """Distinct rows overwritten."""
    x = scope.real(1)
    count = scope.rng.randint(1, x.type.shape[0])
    part = scope.like((count, *x.type.shape[1:]))
    start, rows = scope.rng.randint(0, 3), x.type.shape[0]
    text = f"{x.name}.at[(jnp.arange({count}) + {start}) % {rows}].set({part.name})"
    scope.emit(text, (None, max(x.reach, part.reach)))


def scatter_add(scope: Scope) -> None:
    """Rows combined into a table, several into one; a part of them falls outside and is dropped."""
    x = scope.real(1, max_reach=MAX_REACH - 3)
    count = scope.rng.choice(DIMS)
    part = scope.like((count, *x.type.shape[1:]))
    if part.reach > MAX_REACH - 3:
        raise NotHere
    names = ("add", "max", "min") if not scope.is_gradient else ("add",)
    name = scope.rng.choice(names)
    index = scope.like((count,), "int32").name
    place = index if scope.rng.random() < 0.3 else f"{index} % {x.type.shape[0]}"
    scope.emit(f"{x.name}.at[{place}].{name}({part.name})", (None, max(x.reach, part.reach) + 3))


def segments(scope: Scope) -> None:
    """Sums by group."""
    x = scope.real(1)
    rows = x.type.shape[0]
    index = scope.like((rows,), "int32").name
    groups = scope.rng.choice(DIMS)
    text = f"jax.ops.segment_sum({x.name}, {index} % {groups}, {groups})"
    scope.emit(text, (x.grain, x.reach + growth(x, (0,))))


def one_hot(scope: Scope) -> None:
    """Classes as unit vectors."""
    x = scope.pick("int32", where=lambda v: v.type.rank < 3)
    scope.emit(f"jax.nn.one_hot({x.name}, {scope.rng.choice(DIMS)})", (0, 1))


def counter(scope: Scope) -> None:
    """Numbers counted along a dim."""
    rank = scope.rng.randint(1, 3)
    shape = tuple(scope.rng.choice(DIMS) for _ in range(rank))
    kind = scope.rng.choice(("float32", "int32"))
    scope.emit(f"jax.lax.broadcasted_iota(jnp.{kind}, {shape}, {scope.rng.randrange(rank)})", (0, 4))


def random_bits(scope: Scope) -> None:
    """Random integers from a key."""
    key = _key(scope)
    scope.emit(f"jax.random.bits({key}, {_shape(scope)})")


def random_numbers(scope: Scope) -> None:
    """Random numbers from a key."""
    key = _key(scope)
    name = scope.rng.choice(("uniform", "normal", "bernoulli", "randint"))
    extra = {"bernoulli": ("0.5, ", ""), "randint": ("", ", -4, 9")}
    before, after = extra.get(name, ("", ""))
    scope.emit(f"jax.random.{name}({key}, {before}{_shape(scope)}{after})", (None, 3))


def permutation(scope: Scope) -> None:
    """A random order of rows."""
    x = scope.real(1)
    scope.emit(f"jax.random.permutation({_key(scope)}, {x.name})", (x.grain, x.reach))


def _key(scope: Scope) -> str:
    key = scope.pick(KEY, where=lambda v: v.type.rank == 0).name
    choice = scope.rng.randrange(3)
    return (key, f"jax.random.fold_in({key}, 7)", f"jax.random.split({key})[1]")[choice]


def _shape(scope: Scope) -> tuple[int, ...]:
    return tuple(scope.rng.choice(DIMS) for _ in range(scope.rng.randint(1, 2)))


def _indices(scope: Scope, size: int) -> str:
    found = [v for v in scope.vars if v.type.dtype == "int32" and v.type.rank <= 2]
    if found and scope.rng.random() < 0.7:
        return f"{scope.rng.choice(found).name} % {size}"
    return f"(jnp.arange({scope.rng.choice(DIMS)}) * 5) % {size}"


def _starts(scope: Scope, x: Var) -> str:
    scalars = [v.name for v in scope.vars if v.type.dtype == "int32" and v.type.rank == 0]
    chosen = [
        scope.rng.choice(scalars) if scalars and scope.rng.random() < 0.5 else str(scope.rng.randrange(s))
        for s in x.type.shape
    ]
    return f"({', '.join(chosen)},)"
