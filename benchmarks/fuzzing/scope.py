"""What a program has while it is drawn: arrays to read, names to give, types of new operations.

Comparisons, sorts with payload, roundings and the like are drawn on *exact* arrays only: those whose values
are multiples of a power of two, small enough that float32 holds every sum and product of them. Any order of
evaluation gives the same bits there, so that a difference is a fault and no rounding.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from .program import KEY, Block, Op, Type, Var, define

DIMS = (1, 2, 3, 4, 6, 8, 12, 16)
INPUT_GRAIN, INPUT_REACH = 2, 2
MAX_INPUTS, MAX_ELEMENTS, MAX_RANK = 4, 2048, 4
# float32 holds 24 bits; beyond the second limit values would overflow after a few more operations.
_EXACT_BITS, MAX_REACH = 22, 12

Exact = tuple[int | None, int]  # grain and reach of a result
ROUNDED = (None, 3)


class NotHere(Exception):
    """The operation drawn has no operands in this scope."""


@dataclass
class Names:
    """Gives names and inputs of one program.

    Attributes:
        inputs: the inputs made so far.
    """

    inputs: list[Var] = field(default_factory=list)
    _count: dict[str, int] = field(default_factory=dict)

    def new(self, letter: str) -> str:
        """The next name with a letter."""
        self._count[letter] = self._count.get(letter, -1) + 1
        return f"{letter}{self._count[letter]}"


@dataclass
class Scope:
    """Draws operations of one function body.

    Attributes:
        rng: the only source of choices; a ``random.Random`` or hypothesis' own.
        names: shared by all bodies of a program.
        draw: adds one operation to a scope.
        is_gradient: whether operations must be differentiable in reverse.
        vars: arrays in sight, oldest first.
        ops: the operations so far.
        depth: how deep the body is nested.
    """

    rng: random.Random
    names: Names
    draw: Callable[[Scope], None]
    is_gradient: bool
    vars: list[Var] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    depth: int = 0

    def pick(self, *dtypes: str, where: Callable[[Var], bool] = lambda v: True) -> Var:
        """An array of one of the types, recent ones more often.

        Raises:
            NotHere: where there is none.
        """
        found = [v for v in self.vars if v.type.dtype in dtypes and where(v)]
        if not found:
            raise NotHere
        recent = found[-3:]
        return self.rng.choice(recent if self.rng.random() < 0.6 else found)

    def real(self, min_rank: int = 0, *, exact: bool = False, max_reach: int = MAX_REACH) -> Var:
        """A float32 array of at least a rank."""
        return self.pick(
            "float32",
            where=lambda v: v.type.rank >= min_rank and v.reach <= max_reach and (v.is_exact or not exact),
        )

    def like(self, shape: Sequence[int], dtype: str = "float32") -> Var:
        """An array of just this shape: one in sight, a new input, or an operation that makes one."""
        shape = tuple(shape)
        found = [v for v in self.vars if v.type == Type(shape, dtype) and v.reach <= MAX_REACH // 2]
        if found and self.rng.random() < 0.8:
            return self.rng.choice(found)
        if self.depth == 0 and len(self.names.inputs) < MAX_INPUTS and dtype == "float32":
            return self.new_input(Type(shape, dtype))
        return self.made(shape, dtype)

    def made(self, shape: Sequence[int], dtype: str) -> Var:
        """An operation that makes an array out of nothing."""
        count = 1
        for size in shape:
            count *= size
        if dtype == "float32":
            text = f"((jnp.arange({count}) * 7) % 17 - 8).astype(jnp.float32).reshape({tuple(shape)}) / 4"
        else:
            text = f"((jnp.arange({count}) * 7) % 13 - 4).astype(jnp.{dtype}).reshape({tuple(shape)})"
        return self.emit(text, exact=(INPUT_GRAIN, INPUT_REACH))[0]

    def new_input(self, type_: Type) -> Var:
        """One more input of the program."""
        exact = INPUT_GRAIN if type_.is_float else None
        var = Var(self.names.new("x"), type_, exact, INPUT_REACH)
        self.names.inputs.append(var)
        self.vars.append(var)
        return var

    def emit(self, text: str, exact: Exact = ROUNDED, blocks: Sequence[Block] = ()) -> tuple[Var, ...]:
        """Adds an operation.

        Args:
            text: the right-hand side.
            exact: grain and reach of real results.
            blocks: nested functions.

        Raises:
            NotHere: where a result would be too large.
        """
        types = self._types(Op((), text, tuple(blocks)))
        if any(_elements(t) > MAX_ELEMENTS or t.rank > MAX_RANK for t in types):
            raise NotHere
        grain = None if exact[0] is not None and exact[0] + exact[1] > _EXACT_BITS else exact[0]
        results = tuple(Var(self.names.new("v"), t, grain, exact[1]) for t in types)
        self.ops.append(Op(results, text, tuple(blocks)))
        self.vars += results
        return results

    def _types(self, op: Op) -> list[Type]:
        reads = sorted(op.reads())
        by_name = {v.name: v for v in self.vars}
        lines = [line for block in op.blocks for line in block.lines(1)]
        body = "\n".join([*lines, f"    return {op.text}"])
        text = f"import jax\nimport jax.numpy as jnp\ndef probe({', '.join(reads)}):\n{body}\n"
        out = jax.eval_shape(define(text, "probe"), *(abstract(by_name[r].type) for r in reads))
        return [_type(leaf) for leaf in jax.tree.leaves(out)]

    def body(self, types: Sequence[Var], num_ops: int) -> tuple[Scope, tuple[Var, ...]]:
        """A scope for a nested function with parameters like given arrays; it sees the arrays out here too.

        Args:
            types: arrays whose types (and magnitudes) the parameters have.
            num_ops: how many to add.

        Returns:
            The scope after drawing, and its parameters.
        """
        params = tuple(Var(self.names.new("w"), v.type, v.grain, v.reach) for v in types)
        # Arrays from outside become constants of a loop body: a few, so that the parameters are used most.
        outer = self.rng.sample(self.vars, min(len(self.vars), 2))
        seen = [*outer, *params]
        inner = Scope(self.rng, self.names, self.draw, self.is_gradient, seen, depth=self.depth + 1)
        for _ in range(num_ops):
            self.draw(inner)
        return inner, params


def abstract(type_: Type) -> Any:
    """The type as JAX traces it."""
    dtype = jax.random.key(0).dtype if type_.dtype == KEY else jnp.dtype(type_.dtype)
    return jax.ShapeDtypeStruct(type_.shape, dtype)


def _type(leaf: Any) -> Type:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return Type(tuple(leaf.shape), KEY if is_key else str(leaf.dtype))


def _elements(type_: Type) -> int:
    count = 1
    for size in type_.shape:
        count *= size
    return count
