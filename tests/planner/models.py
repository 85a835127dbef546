"""Models of small programs on eight devices, and how to find things in them."""

from __future__ import annotations

from typing import Any

import jax

from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.ir import Program
from meshwright.compiler.planner.builder import ModelBuilder
from meshwright.compiler.planner.layout import Layout
from meshwright.compiler.planner.model import Model, Read
from meshwright.compiler.planner.solver.problem import Usage
from meshwright.compiler.rules import RuleBook
from meshwright.cost_models.cluster import Cluster
from meshwright.cost_models.mesh import LogicalMesh

BOOK = RuleBook()
MESH = LogicalMesh(Cluster.load("h100:1x8"), (8,), ("data",))
SQUARE = (512, 512)
DONATE = TraceOptions(donate_argnums=0)


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, "float32")


def traced(fun: Any, *args: Any, options: TraceOptions | None = None) -> Program:
    return trace_program(fun, options or TraceOptions(), args, {})


def built(program: Program, pins: dict[int, Layout] | None = None, budget: float | None = None) -> Model:
    return ModelBuilder(program, MESH, BOOK, pins or {}).build(budget)


def model_of(fun: Any, *args: Any, options: TraceOptions | None = None) -> Model:
    return built(traced(fun, *args, options=options))


def deciders(model: Model, op: str) -> list[int]:
    """The variables of one operation."""
    return [i for i, v in enumerate(model.variables) if v.node is not None and v.node.op == op]


def reads_by(model: Model, reader: int) -> list[Read]:
    return [r for r in model.reads if r.reader == reader]


def usage(model: Model, variable: int) -> Usage:
    (found,) = [u for u in model.problem.usages if u.node == variable]
    return found
