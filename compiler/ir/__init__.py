"""The graph IR: values, nodes and nested regions, with one printer and one verifier."""

from .graph import Graph, Literal, Node, Operand, Program, Source, Value, walk_nodes
from .printer import format_graph, format_program
from .types import TensorType
from .verifier import verify_graph, verify_program

__all__ = [
    "Graph",
    "Literal",
    "Node",
    "Operand",
    "Program",
    "Source",
    "TensorType",
    "Value",
    "format_graph",
    "format_program",
    "verify_graph",
    "verify_program",
    "walk_nodes",
]
