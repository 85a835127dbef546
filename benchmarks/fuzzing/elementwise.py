"""Operations that work element by element: real, integer, boolean and complex."""

from __future__ import annotations

import numpy as np

from .program import Var
from .scope import MAX_REACH, NotHere, Scope

# Bounded on every argument, with bounded derivatives.
SMOOTH = (
    "jnp.sin({0})",
    "jnp.cos({0})",
    "jnp.tan(jnp.tanh({0}))",
    "jnp.tanh({0})",
    "jax.nn.sigmoid({0})",
    "jax.lax.erf({0})",
    "jax.lax.erfc({0})",
    "jax.lax.erf_inv(0.9 * jnp.tanh({0}))",
    "jnp.exp(jnp.minimum({0}, 2.0))",
    "jnp.exp2(jnp.minimum({0}, 2.0))",
    "jnp.expm1(jnp.minimum({0}, 2.0))",
    "jnp.log(jnp.abs({0}) + 1.0)",
    "jnp.log1p(jnp.square({0}))",
    "jnp.sqrt(jnp.abs({0}) + 1.0)",
    "jax.lax.rsqrt(jnp.square({0}) + 1.0)",
    "jnp.cbrt(jnp.abs({0}) + 1.0)",
    "jnp.arcsinh({0})",
    "jnp.arccosh(jnp.square({0}) + 2.0)",
    "jnp.arctanh(0.9 * jnp.tanh({0}))",
    "jnp.arcsin(0.9 * jnp.tanh({0}))",
    "jnp.arccos(0.9 * jnp.tanh({0}))",
    "jnp.arctan({0})",
    "jnp.sinh(jnp.tanh({0}))",
    "jnp.cosh(jnp.tanh({0}))",
    "jax.lax.lgamma(jnp.abs({0}) + 1.0)",
    "jax.lax.digamma(jnp.abs({0}) + 1.0)",
    "jax.nn.softplus({0})",
    "jax.nn.gelu(jnp.tanh({0}))",
    "jax.nn.silu({0})",
    "jax.lax.reduce_precision({0}, 8, 12)",
    "jax.lax.stop_gradient({0}) * 0.5 + {0}",
)
KEEPING = (
    "-{0}",
    "jnp.abs({0})",
    "jax.nn.relu({0})",
    "jnp.clip({0}, -1.5, 1.5)",
    "jax.nn.leaky_relu({0}, 0.5)",
)
ROUNDING = ("jnp.floor({0})", "jnp.ceil({0})", "jnp.round({0})", "jnp.sign({0})", "jnp.trunc({0})")
SMOOTH_PAIRS = (
    "{0} / (jnp.abs({1}) + 1.0)",
    "jnp.arctan2({0}, jnp.abs({1}) + 1.0)",
    "(jnp.abs({0}) + 0.5) ** jnp.tanh({1})",
    "jnp.logaddexp({0}, {1})",
    "jnp.hypot({0} + 9.0, {1})",
)
EXTREMA = ("jnp.maximum({0}, {1})", "jnp.minimum({0}, {1})")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
INTEGER_PAIRS = (
    "{0} + {1}",
    "{0} - {1}",
    "{0} * {1}",
    "{0} & {1}",
    "{0} | {1}",
    "{0} ^ {1}",
    "jnp.maximum({0}, {1})",
    "jnp.minimum({0}, {1})",
    "jnp.fmod({0}, {1} | 1)",
    "{0} // ({1} | 1)",
    "{0} << ({1} & 7)",
    "{0} >> ({1} & 7)",
)
INTEGER_UNARY = (
    "-{0}",
    "~{0}",
    "jnp.abs({0})",
    "jnp.sign({0})",
    "jax.lax.population_count({0})",
    "jax.lax.clz({0})",
    "{0} ** 2",
)
BOOLEAN_PAIRS = ("{0} & {1}", "{0} | {1}", "{0} ^ {1}")
COMPLEX_UNARY = ("jnp.conj({0})", "jnp.exp(1j * jnp.real({0}))", "{0} * (1 - 2j)")


def smooth(scope: Scope) -> None:
    """A smooth function of a real array."""
    scope.emit(scope.rng.choice(SMOOTH).format(scope.real().name))


def keeping(scope: Scope) -> None:
    """A piecewise linear function that keeps exact values exact."""
    x = scope.real()
    text = scope.rng.choice(KEEPING)
    grain = x.grain if x.grain is None or "leaky" not in text else x.grain + 1
    scope.emit(text.format(x.name), (grain, max(x.reach, 1)))


def rounding(scope: Scope) -> None:
    """A step function of an exact array."""
    x = scope.real(exact=True)
    scope.emit(scope.rng.choice(ROUNDING).format(x.name), (0, x.reach))


def cube(scope: Scope) -> None:
    """An integer power."""
    x = scope.real(max_reach=MAX_REACH // 3)
    scope.emit(f"{x.name} ** 3", (None if x.grain is None else 3 * x.grain, 3 * x.reach))


def add(scope: Scope) -> None:
    """A sum or difference."""
    x, y = pair(scope)
    scope.emit(f"{x.name} {scope.rng.choice('+-')} {y.name}", (finer(x, y), max(x.reach, y.reach) + 1))


def multiply(scope: Scope) -> None:
    """A product of arrays that are not too large."""
    x, y = pair(scope, max_reach=MAX_REACH // 2)
    grain = None if x.grain is None or y.grain is None else x.grain + y.grain
    scope.emit(f"{x.name} * {y.name}", (grain, x.reach + y.reach))


def smooth_pair(scope: Scope) -> None:
    """A smooth function of two real arrays."""
    x, y = pair(scope)
    scope.emit(scope.rng.choice(SMOOTH_PAIRS).format(x.name, y.name), (None, max(x.reach, y.reach) + 1))


def extremum(scope: Scope) -> None:
    """The larger or smaller of two."""
    x, y = pair(scope)
    scope.emit(scope.rng.choice(EXTREMA).format(x.name, y.name), (finer(x, y), max(x.reach, y.reach)))


def compare(scope: Scope) -> None:
    """A comparison of exact arrays."""
    x, y = pair(scope, exact=True)
    scope.emit(f"{x.name} {scope.rng.choice(COMPARISONS)} {y.name}")


def is_finite(scope: Scope) -> None:
    """A test of each number."""
    scope.emit(f"jnp.isfinite({scope.real().name})")


def select(scope: Scope) -> None:
    """One of two arrays, by a condition that is a boolean array or a parity."""
    x, y = pair(scope)
    exact = (finer(x, y), max(x.reach, y.reach))
    flags = [v for v in scope.vars if v.type.dtype == "bool" and _broadcast(v, x, y)]
    if flags:
        scope.emit(f"jnp.where({scope.rng.choice(flags).name}, {x.name}, {y.name})", exact)
        return
    test = scope.real(exact=True)
    if not _broadcast(test, x, y):
        raise NotHere
    scope.emit(f"jnp.where({test.name} > 0.25, {x.name}, {y.name})", exact)


def clamp(scope: Scope) -> None:
    """Both bounds are arrays of the same shape or scalars."""
    x = scope.real()
    scope.emit(f"jax.lax.clamp(-1.25, {x.name}, 2.5)", (x.grain, 2))


def integer(scope: Scope) -> None:
    """Integer arithmetic, which wraps."""
    x = scope.pick("int32", "uint32")
    if scope.rng.random() < 0.4:
        scope.emit(scope.rng.choice(INTEGER_UNARY).format(x.name))
        return
    y = scope.pick(x.type.dtype, where=lambda v: _broadcast(v, x))
    scope.emit(scope.rng.choice(INTEGER_PAIRS).format(x.name, y.name))


def boolean(scope: Scope) -> None:
    """Logic."""
    x = scope.pick("bool")
    if scope.rng.random() < 0.3:
        scope.emit(f"~{x.name}")
        return
    y = scope.pick("bool", where=lambda v: _broadcast(v, x))
    scope.emit(scope.rng.choice(BOOLEAN_PAIRS).format(x.name, y.name))


def to_integer(scope: Scope) -> None:
    """Real to integer, of exact values."""
    scope.emit(f"{scope.real(exact=True, max_reach=20).name}.astype(jnp.int32)")


def to_real(scope: Scope) -> None:
    """Integer or boolean to real, kept small."""
    x = scope.pick("int32", "bool", "uint32")
    text = f"{x.name}.astype(jnp.float32)"
    if x.type.dtype != "bool":
        text = f"({x.name} & 15).astype(jnp.float32)"
    scope.emit(text, (0, 4))


def through_bfloat16(scope: Scope) -> None:
    """A product in bfloat16."""
    x = scope.real()
    scope.emit(
        f"({x.name}.astype(jnp.bfloat16) * jnp.bfloat16(1.5)).astype(jnp.float32)", (None, x.reach + 1)
    )


def bits_of(scope: Scope) -> None:
    """The bits of exact numbers as integers."""
    x = scope.real(exact=True)
    # A negative zero is a zero here: adding 0 makes it one.
    scope.emit(f"jax.lax.bitcast_convert_type({x.name} + 0.0, jnp.int32)")


def make_complex(scope: Scope) -> None:
    """A complex array of two real ones."""
    x = scope.real(max_reach=3)
    scope.emit(f"jax.lax.complex({x.name}, {scope.like(x.type.shape).name})", (None, 6))


def complex_product(scope: Scope) -> None:
    """Complex arithmetic."""
    x = scope.pick("complex64", where=lambda v: v.reach <= MAX_REACH // 2)
    if scope.rng.random() < 0.4:
        scope.emit(scope.rng.choice(COMPLEX_UNARY).format(x.name), (None, x.reach + 2))
        return
    y = scope.pick("complex64", where=lambda v: v.reach <= MAX_REACH // 2 and _broadcast(v, x))
    scope.emit(f"{x.name} * {y.name}", (None, x.reach + y.reach))


def from_complex(scope: Scope) -> None:
    """A real part of a complex array."""
    x = scope.pick("complex64")
    part = scope.rng.choice(("jnp.real({0})", "jnp.imag({0})", "jnp.abs({0} + 0.5)"))
    scope.emit(part.format(x.name), (None, x.reach))


def pair(scope: Scope, *, exact: bool = False, max_reach: int = MAX_REACH) -> tuple[Var, Var]:
    """Two real arrays that broadcast against each other."""
    x = scope.real(exact=exact, max_reach=max_reach)
    y = scope.pick(
        "float32",
        where=lambda v: _broadcast(v, x) and v.reach <= max_reach and (v.is_exact or not exact),
    )
    return x, y


def finer(x: Var, y: Var) -> int | None:
    """Grain of what holds values of both."""
    return None if x.grain is None or y.grain is None else max(x.grain, y.grain)


def _broadcast(*arrays: Var) -> bool:
    try:
        np.broadcast_shapes(*(a.type.shape for a in arrays))
    except ValueError:
        return False
    return True
