"""Programs as data: a list of operations that prints as the Python text that runs.

The text *is* the meaning: a program runs by executing what it prints, so a printed failure can be pasted into
a file and run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

KEY = "key"  # the element type of a typed random key
_INDENT = "    "
_NAME = re.compile(r"\b[vxwf]\d+\b")


@dataclass(frozen=True)
class Type:
    """Shape and element type of an array.

    Attributes:
        shape: sizes of the dims.
        dtype: as NumPy prints it, or ``key``.
    """

    shape: tuple[int, ...]
    dtype: str

    @property
    def rank(self) -> int:
        """Number of dims."""
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        """Whether it is of a real floating-point type."""
        return self.dtype in ("float32", "bfloat16", "float16")

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Var:
    """A named array.

    Attributes:
        name: ``x0`` for an input, ``v0`` for a result, ``w0`` for a parameter of a nested function.
        type: its type.
        grain: for a real array that holds multiples of ``2**-grain`` exactly; None where it is rounded.
        reach: magnitudes stay below about ``2**reach``.
    """

    name: str
    type: Type
    grain: int | None = None
    reach: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether any order of evaluation gives the same bits, so that comparisons are stable."""
        return not self.type.is_float and self.type.dtype != "complex64" or self.grain is not None


@dataclass(frozen=True)
class Block:
    """A nested function.

    Attributes:
        name: its name, ``f0``.
        params: its parameters.
        ops: its operations in order.
        outputs: names of its results.
    """

    name: str
    params: tuple[Var, ...]
    ops: tuple[Op, ...]
    outputs: tuple[str, ...]

    def lines(self, depth: int) -> Iterator[str]:
        """The definition as lines of Python."""
        pad = _INDENT * depth
        yield f"{pad}def {self.name}({', '.join(p.name for p in self.params)}):"
        for op in self.ops:
            yield from op.lines(depth + 1)
        yield f"{pad}{_INDENT}return {', '.join(self.outputs)}"


@dataclass(frozen=True)
class Op:
    """One statement.

    Attributes:
        results: what it assigns.
        text: the right-hand side.
        blocks: nested functions that the text names, defined just before.
    """

    results: tuple[Var, ...]
    text: str
    blocks: tuple[Block, ...] = ()

    def lines(self, depth: int) -> Iterator[str]:
        """The nested functions and the statement as lines of Python."""
        for block in self.blocks:
            yield from block.lines(depth)
        yield f"{_INDENT * depth}{', '.join(r.name for r in self.results)} = {self.text}"

    def reads(self) -> frozenset[str]:
        """Names of arrays it needs from outside, those of nested functions included."""
        text = "\n".join(self.lines(0))
        inner = {n for block in self.blocks for n in _bound_names(block)}
        return frozenset(_NAME.findall(text)) - inner - {r.name for r in self.results}


@dataclass(frozen=True)
class Program:
    """A function from arrays to arrays.

    Attributes:
        inputs: its parameters.
        ops: its operations in order.
        outputs: names of what it returns.
        is_gradient: whether it returns the value and the gradients of the mean of its real outputs, with
            respect to its float32 inputs, instead of the outputs.
    """

    inputs: tuple[Var, ...]
    ops: tuple[Op, ...]
    outputs: tuple[str, ...]
    is_gradient: bool = False

    def __str__(self) -> str:
        """The program as Python text that defines ``program``."""
        names = ", ".join(x.name for x in self.inputs)
        lines = ["import jax", "import jax.numpy as jnp", ""]
        lines += [f"# {x.name}: {x.type}" for x in self.inputs]
        lines.append(f"def program({names}):")
        depth = 2 if self.is_gradient else 1
        if self.is_gradient:
            lines.append(f"{_INDENT}def loss({names}):")
        for op in self.ops:
            lines += op.lines(depth)
        pad = _INDENT * depth
        if not self.is_gradient:
            lines.append(f"{pad}return {', '.join(self.outputs)}")
            return "\n".join(lines) + "\n"
        lines.append(f"{pad}return {' + '.join(f'jnp.mean({n})' for n in self.outputs)}")
        positions = tuple(i for i, x in enumerate(self.inputs) if x.type.dtype == "float32")
        lines.append(f"{_INDENT}return jax.value_and_grad(loss, argnums={positions})({names})")
        return "\n".join(lines) + "\n"

    def vars(self) -> dict[str, Var]:
        """Inputs and results of its own operations, by name."""
        results = [r for op in self.ops for r in op.results]
        return {v.name: v for v in (*self.inputs, *results)}

    def function(self) -> Callable[..., Any]:
        """The program as a function."""
        return define(str(self), "program")

    def without_dead_code(self) -> Program:
        """The same program without operations and inputs that no output needs; it keeps one input."""
        needed, kept = set(self.outputs), []
        for op in reversed(self.ops):
            if needed & {r.name for r in op.results}:
                kept.append(op)
                needed |= op.reads()
        inputs = tuple(x for x in self.inputs if x.name in needed) or self.inputs[:1]
        return replace(self, inputs=inputs, ops=tuple(reversed(kept)))


def define(text: str, name: str) -> Any:
    """Executes Python text and returns what it defines under a name."""
    scope: dict[str, Any] = {}
    exec(compile(text, "<fuzz>", "exec"), scope)
    return scope[name]


def renamed(op: Op, names: Mapping[str, str]) -> Op:
    """The operation with arrays that it reads replaced by others."""

    def swap(text: str) -> str:
        return _NAME.sub(lambda m: names.get(m.group(), m.group()), text)

    def nested(block: Block) -> Block:
        inner = tuple(renamed(o, names) for o in block.ops)
        return replace(block, ops=inner, outputs=tuple(map(swap, block.outputs)))

    return replace(op, text=swap(op.text), blocks=tuple(map(nested, op.blocks)))


def _bound_names(block: Block) -> Iterator[str]:
    yield block.name
    yield from (p.name for p in block.params)
    for op in block.ops:
        yield from (r.name for r in op.results)
        for inner in op.blocks:
            yield from _bound_names(inner)
