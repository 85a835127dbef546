"""The IR's checker: every value is defined before it is read, once, and every region fits its node."""

from __future__ import annotations

from .graph import Graph, Node, Operand, Program, Value
from .printer import format_graph


class VerificationError(AssertionError):
    """The IR breaks one of its own rules: a fault of the compiler, not of the user's program."""


def verify_program(program: Program) -> None:
    """Checks a whole program.

    Raises:
        VerificationError: naming the operation, what was expected and what was found.
    """
    graph = program.graph
    _expect(len(graph.inputs) == len(program.in_paths) == len(program.donated), "one path per input")
    _expect(len(graph.outputs) == len(program.out_paths) == len(program.carried), "one path per output")
    for output, carried in zip(graph.outputs, program.carried, strict=True):
        if carried is not None:
            into = graph.inputs[carried]
            _expect(
                output.type == into.type, f"carried {output} is {output.type}, its input {into} {into.type}"
            )
    verify_graph(graph)


def verify_graph(graph: Graph) -> None:
    """Checks a graph and its regions; see ``verify_program``."""
    try:
        _verify_graph(graph, seen=set())
    except VerificationError as error:
        error.add_note(format_graph(graph))
        raise


def _verify_graph(graph: Graph, seen: set[int]) -> None:
    # Regions are closed: they read their own inputs and constants only.
    scope: set[Value] = set()
    _expect(len(graph.constants) == len(graph.constant_values), "one array per constant")
    for value in (*graph.inputs, *graph.constants):
        _define(value, scope, seen, "region input")
    for node in graph.nodes:
        for operand in node.operands:
            _expect(_in_scope(operand, scope), f"'{node.op}' at {node.source} reads undefined {operand}")
        for region in node.regions:
            _verify_graph(region, seen)
        _verify_arity(node)
        for value in node.results:
            _define(value, scope, seen, f"'{node.op}' at {node.source}")
    for output in graph.outputs:
        _expect(_in_scope(output, scope), f"output {output} is undefined")


def _verify_arity(node: Node) -> None:
    if node.op == "scan":
        (body,) = node.regions
        _expect(
            len(body.inputs) == len(node.operands),
            f"'scan' at {node.source}: operands and body inputs differ",
        )
        _expect(
            len(body.outputs) == len(node.results),
            f"'scan' at {node.source}: results and body outputs differ",
        )
    if node.op == "cond":
        for branch in node.regions:
            _expect(
                len(branch.inputs) == len(node.operands) - 1, f"'cond' at {node.source}: branch inputs differ"
            )
            types = [o.type.shape for o in branch.outputs]
            _expect(
                types == [r.type.shape for r in node.results],
                f"'cond' at {node.source}: branch outputs differ",
            )


def _define(value: Value, scope: set[Value], seen: set[int], by: str) -> None:
    _expect(value.index not in seen, f"{by} defines {value} again")
    seen.add(value.index)
    scope.add(value)


def _in_scope(operand: Operand, scope: set[Value]) -> bool:
    return not isinstance(operand, Value) or operand in scope


def _expect(condition: bool, message: str) -> None:
    if not condition:
        raise VerificationError(message)
