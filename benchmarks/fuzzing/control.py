"""Control flow and transformations, with bodies that are drawn like programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .program import Block, Type, Var
from .scope import MAX_REACH, NotHere, Scope

MAX_DEPTH = 2
_COUNTER = Var("", Type((), "int32"))


def scan(scope: Scope) -> None:
    """A loop over rows that carries an array and stacks others."""
    rows = scope.real(1)
    carry = _carried(scope)
    inner, (state, row) = _body(scope, [_rounded(carry), _row(rows)])
    outputs = (_next_state(inner, state), _latest(inner, row).name)
    block = _block(scope, inner, (state, row), outputs)
    options = scope.rng.choice(("", "", ", reverse=True", ", unroll=2"))
    scope.emit(f"jax.lax.scan({block.name}, {carry.name}, {rows.name}{options})", (None, MAX_REACH), [block])


def counted_loop(scope: Scope) -> None:
    """A loop of a known number of turns."""
    carry = _carried(scope)
    inner, (turn, state) = _body(scope, [_COUNTER, _rounded(carry)])
    block = _block(scope, inner, (turn, state), (_next_state(inner, state),))
    text = f"jax.lax.fori_loop(0, {scope.rng.randint(1, 4)}, {block.name}, {carry.name})"
    scope.emit(text, _limits(carry), [block])


def open_loop(scope: Scope) -> None:
    """A loop whose number of turns is computed; it cannot be differentiated in reverse."""
    carry = _carried(scope)
    inner, (state,) = _body(scope, [_rounded(carry)])
    block = _block(scope, inner, (state,), (_next_state(inner, state),))
    turns = _whole_number(scope)
    step = f"lambda s: (s[0] + 1, {block.name}(s[1]))"
    text = f"jax.lax.while_loop(lambda s: s[0] < ({turns}) % 4, {step}, (0, {carry.name}))[1]"
    scope.emit(text, _limits(carry), [block])


def condition(scope: Scope) -> None:
    """One of two branches."""
    x = _carried(scope)
    first, second = _branches(scope, x, 2)
    text = f"jax.lax.cond({_whole_number(scope)} % 2 == 1, {first.name}, {second.name}, {x.name})"
    scope.emit(text, _limits(x), [first, second])


def switch(scope: Scope) -> None:
    """One of three branches."""
    x = _carried(scope)
    branches = _branches(scope, x, 3)
    names = ", ".join(b.name for b in branches)
    text = f"jax.lax.switch({_whole_number(scope)} % 3, [{names}], {x.name})"
    scope.emit(text, _limits(x), branches)


def recomputed(scope: Scope) -> None:
    """A region computed again for the gradient."""
    policy = scope.rng.choice(("", "", ", policy=jax.checkpoint_policies.dots_saveable"))
    _call(scope, f"jax.checkpoint({{0}}{policy})({{1}})")


def nested_jit(scope: Scope) -> None:
    """A function jitted on its own."""
    _call(scope, "jax.jit({0})({1})")


def vectorized(scope: Scope) -> None:
    """A function of a row mapped over rows, at once or in turn."""
    rows = scope.real(1)
    inner, (row,) = _body(scope, [_row(rows)])
    block = _block(scope, inner, (row,), (_latest(inner, row).name,))
    text = scope.rng.choice(
        ("jax.vmap({0})({1})", "jax.vmap({0}, out_axes=-1)({1})", "jax.lax.map({0}, {1})")
    )
    scope.emit(text.format(block.name, rows.name), (None, MAX_REACH), [block])


def inner_gradient(scope: Scope) -> None:
    """The gradient of a sum, inside a program."""
    x = scope.real()
    body, (param,) = _body(replace(scope, is_gradient=True), [_rounded(x)])
    (last,) = body.emit(f"jnp.sum({_latest(body, param, real=True).name})", (None, MAX_REACH))
    block = _block(scope, body, (param,), (last.name,))
    scope.emit(f"jnp.clip(jax.grad({block.name})({x.name}), -16.0, 16.0)", (None, 4), [block])


def _call(scope: Scope, template: str) -> None:
    arguments = [scope.real()]
    if scope.rng.random() < 0.5:
        arguments.append(scope.real())
    inner, params = _body(scope, arguments)
    block = _block(scope, inner, params, (_latest(inner, params[0]).name,))
    names = ", ".join(a.name for a in arguments)
    scope.emit(template.format(block.name, names), (None, MAX_REACH), [block])


def _body(scope: Scope, like: Sequence[Var]) -> tuple[Scope, tuple[Var, ...]]:
    if scope.depth >= MAX_DEPTH:
        raise NotHere
    return scope.body(like, scope.rng.randint(1, 3))


def _block(scope: Scope, inner: Scope, params: tuple[Var, ...], outputs: tuple[str, ...]) -> Block:
    return Block(scope.names.new("f"), params, tuple(inner.ops), outputs)


def _branches(scope: Scope, x: Var, count: int) -> list[Block]:
    branches = []
    for _ in range(count):
        inner, (param,) = _body(scope, [_rounded(x)])
        branches.append(_block(scope, inner, (param,), (_next_state(inner, param),)))
    return branches


def _next_state(inner: Scope, state: Var) -> str:
    """A new array like the carried one, bounded, made of the body's latest results."""
    results = [r for op in inner.ops for r in op.results]
    real = [r for r in results if r.type.dtype == "float32"]
    alike = [r for r in real if r.type == state.type]
    if alike:
        text = f"jnp.tanh({alike[-1].name})"
    elif real:
        text = f"jnp.tanh(jnp.mean({real[-1].name}))"
    else:
        text = "0.25"
    return inner.emit(f"0.5 * {state.name} + {text}", (None, state.reach + 1))[0].name


def _latest(inner: Scope, otherwise: Var, *, real: bool = False) -> Var:
    results = [r for op in inner.ops for r in op.results if not real or r.type.dtype == "float32"]
    return results[-1] if results else otherwise


def _whole_number(scope: Scope) -> str:
    """Text of an integer that the program computes from exact values."""
    flags = [v for v in scope.vars if v.type.dtype in ("int32", "bool")]
    if flags:
        return f"jnp.abs(jnp.sum({scope.rng.choice(flags).name}))"
    return f"jnp.abs(jnp.sum({scope.real(exact=True).name} > 0.25))"


def _carried(scope: Scope) -> Var:
    return scope.real(max_reach=MAX_REACH // 2)


def _rounded(x: Var) -> Var:
    return replace(x, grain=None)


def _row(x: Var) -> Var:
    return replace(x, type=Type(x.type.shape[1:], x.type.dtype))


def _limits(x: Var) -> tuple[None, int]:
    return None, x.reach + 1
