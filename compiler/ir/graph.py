"""The IR itself: immutable values, nodes with nested regions, graphs, and the program around them.

A ``Program`` is what the frontend makes of one traced call: a ``Graph`` whose inputs are the flattened
arguments, with the pytree paths, donation and carried state that the graph alone cannot say. Nodes keep the
JAX primitive and its parameters, so that lowering can bind them again; everything else about JAX stays in the
frontend and the lowering.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .types import TensorType


@dataclass(frozen=True, slots=True)
class Source:
    """The user's line an operation comes from."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A value defined once, by a graph's input, a constant or a node.

    Attributes:
        index: number in definition order over the whole program, nested regions included.
        type: shape and element type.
        path: pytree path for program inputs (``state/params/w``), a hint or ``""`` elsewhere.
    """

    index: int
    type: TensorType
    path: str = ""

    def __str__(self) -> str:
        return f"%{self.index}"


@dataclass(frozen=True, eq=False, slots=True)
class Literal:
    """A scalar written into the program."""

    value: Any
    type: TensorType

    def __str__(self) -> str:
        return f"{self.value!s}:{self.type}"


Operand = Value | Literal


@dataclass(frozen=True, eq=False)
class Node:
    """One operation: a JAX primitive applied to operands.

    Attributes:
        index: number in program order over the whole program, nested regions included.
        op: the primitive's name (``dot_general``).
        primitive: the JAX primitive, bound again by the lowering.
        params: the primitive's parameters as JAX traced them.
        operands: values and literals read.
        results: values defined.
        regions: nested graphs (scan body, while condition and body, cond branches, remat body), in the order
            the primitive declares them.
        source: the user's line, if known.
        effectful: True where the operation must stay even if nobody reads its results.
        context: JAX's equation context (compute type, XLA metadata), entered again when bound.
        source_info: JAX's own source record, handed on to XLA's metadata.
    """

    index: int
    op: str
    primitive: Any
    params: Mapping[str, Any]
    operands: tuple[Operand, ...]
    results: tuple[Value, ...]
    regions: tuple[Graph, ...] = ()
    source: Source | None = None
    effectful: bool = False
    context: Any = field(default=None, repr=False)
    source_info: Any = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"<{self.op} #{self.index} at {self.source}>"


@dataclass(frozen=True, eq=False)
class Graph:
    """A list of nodes in program order, with inputs, closed-over constants and outputs.

    Attributes:
        inputs: arguments, or what the enclosing node passes to this region.
        constants: closed-over arrays.
        constant_values: the arrays behind ``constants``, same order; None for a value of a transformation
            around the program, which has no array yet.
        nodes: operations in program order.
        outputs: what is returned.
    """

    inputs: tuple[Value, ...]
    constants: tuple[Value, ...]
    constant_values: tuple[Any, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Operand, ...]

    def __str__(self) -> str:
        from .printer import format_graph

        return format_graph(self)


@dataclass(frozen=True, eq=False)
class Program:
    """A traced function: its graph and what the graph alone cannot say.

    Attributes:
        name: the function's name.
        graph: the computation on flattened arguments.
        in_tree: pytree structure of ``(args, kwargs)`` without static arguments.
        out_tree: pytree structure of the result.
        in_paths: pytree path of each input, beginning with the parameter's name (``state/params/w``).
        out_paths: pytree path of each output.
        donated: for each input, whether the caller gives its buffer away.
        carried: for each output, the index of the input it replaces in the next call (state that comes in and
            goes out), or None.
        num_values: how many values are numbered, nested regions included.
        num_nodes: how many nodes are numbered, nested regions included.
    """

    name: str
    graph: Graph
    in_tree: Any
    out_tree: Any
    in_paths: tuple[str, ...]
    out_paths: tuple[str, ...]
    donated: tuple[bool, ...]
    carried: tuple[int | None, ...]
    num_values: int
    num_nodes: int

    @property
    def is_closed(self) -> bool:
        """Whether every closed-over constant has an array, so that the program can run by itself."""
        return all(array is not None for array in self.graph.constant_values)

    def __str__(self) -> str:
        from .printer import format_program

        return format_program(self)


def walk_nodes(graph: Graph) -> Iterator[Node]:
    """Yields every node of a graph in program order, a node before the nodes of its regions."""
    for node in graph.nodes:
        yield node
        for region in node.regions:
            yield from walk_nodes(region)
