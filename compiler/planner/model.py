"""The planner's view of a program: decisions, what reads what, and the optimisation problem they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..ir import Node, TensorType, Value
from .layout import Layout
from .solver.problem import Problem
from .strategies import Strategy


class Site(NamedTuple):
    """A place where a value is read, stable across processes.

    Attributes:
        node: index of the reading node, or -1 for the program's own results.
        region: -1 for the node's operands, else the region whose output it is.
        position: operand or output position.
    """

    node: int
    region: int
    position: int


@dataclass(frozen=True)
class Variable:
    """One decision.

    Attributes:
        name: for messages: a path, or operation and source line.
        strategies: what can be chosen; for a mere layout (an input, a loop carry) each has one result.
        weight: how often it runs per step (trip counts).
        node: the operation decided, if it is one; the last node of a fused one.
        value: the value whose layout is decided, if it is no operation.
    """

    name: str
    strategies: tuple[Strategy, ...]
    weight: float
    node: Node | None = None
    value: Value | None = None


@dataclass(frozen=True, eq=False)
class Definition:
    """Where a value's layout comes from: a variable, with the value's layout under each of its strategies."""

    variable: int
    port: int
    layouts: tuple[Layout, ...]


@dataclass(frozen=True, eq=False)
class Read:
    """One read of a value by one variable, with the layout wanted under each strategy of the reader.

    Attributes:
        sites: where it is read; a fused operation may read a value at several of its nodes.
        source: the value's definition.
        reader: the reading variable.
        targets: layout wanted under each of the reader's strategies.
        type: type of what is moved.
        weight: how often it happens per step.
        what: the value's path or ``%index``, for messages.
        node: the reading node, for its source line.
        edge: index of the problem's edge, or None where both ends are one variable.
        copied: layouts, by the reader's strategies, in which another of its operands reads the value: where
            that is the layout wanted here too, one copy serves both.
    """

    sites: tuple[Site, ...]
    source: Definition
    reader: int
    targets: tuple[Layout, ...]
    type: TensorType
    weight: float
    what: str
    node: Node | None
    edge: int | None
    copied: tuple[Layout, ...] | None = None

    def is_served(self, strategy: int) -> bool:
        """Whether another place of the same reader has the copy already, under one of its strategies."""
        return self.copied is not None and self.copied[strategy] == self.targets[strategy]


@dataclass(frozen=True, eq=False)
class Model:
    """Everything the search needs and the plan is written from.

    Attributes:
        problem: costs and memory.
        variables: decisions, one per node of the problem.
        reads: reads, each the origin of at most one edge.
        definitions: by value, nested regions included.
        inputs: the variable of each program input.
        live_names: what runs at each live point.
    """

    problem: Problem
    variables: tuple[Variable, ...]
    reads: tuple[Read, ...]
    definitions: dict[Value, Definition]
    inputs: tuple[int, ...]
    live_names: tuple[str, ...]
