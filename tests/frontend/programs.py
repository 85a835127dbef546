"""Short hands for the frontend's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.ir import Program, verify_program, walk_nodes


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    """An abstract float32 array."""
    return jax.ShapeDtypeStruct(shape, "float32")


def traced(
    fun: Callable[..., Any], *args: Any, options: TraceOptions | None = None, **kwargs: Any
) -> Program:
    """Traces and verifies."""
    program = trace_program(fun, options or TraceOptions(), args, kwargs)
    verify_program(program)
    return program


def ops(program: Program) -> list[str]:
    """Names of all operations in program order, nested ones included."""
    return [node.op for node in walk_nodes(program.graph)]
