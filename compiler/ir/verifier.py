"""The IR's checker: every value is defined before it is read, once, and every region fits its node."""

from __future__ import annotations

from collections.abc import Sequence

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
    check = _REGION_CHECKS.get(node.op)
    if check and node.regions:
        check(node)


def _verify_scan(node: Node) -> None:
    (body,) = node.regions
    first, count = node.params["num_consts"], node.params["num_carry"]
    _same_length(node, "body inputs", body.inputs, node.operands)
    _same_length(node, "body outputs", body.outputs, node.results)
    _same_types(node, "carries", body.inputs[first : first + count], body.outputs[:count])


def _verify_while(node: Node) -> None:
    condition, body = node.regions
    n_condition, n_body = node.params["cond_nconsts"], node.params["body_nconsts"]
    carries = body.inputs[n_body:]
    _same_types(node, "results", carries, node.results)
    _same_types(node, "carries", carries, body.outputs)
    _same_types(node, "carries of the condition", carries, condition.inputs[n_condition:])


def _verify_cond(node: Node) -> None:
    for branch in node.regions:
        _same_types(node, "branch inputs", branch.inputs, node.operands[1:])
        _same_types(node, "branch outputs", branch.outputs, node.results)


def _verify_remat(node: Node) -> None:
    (body,) = node.regions
    _same_types(node, "body inputs", body.inputs, node.operands)
    _same_types(node, "body outputs", body.outputs, node.results)


_REGION_CHECKS = {
    "scan": _verify_scan,
    "while": _verify_while,
    "cond": _verify_cond,
    "remat2": _verify_remat,
    "checkpoint": _verify_remat,
}


def _same_length(node: Node, what: str, found: Sequence[Operand], expected: Sequence[Operand]) -> None:
    message = f"'{node.op}' at {node.source} has {len(found)} {what}, expected {len(expected)}"
    _expect(len(found) == len(expected), message)


def _same_types(node: Node, what: str, found: Sequence[Operand], expected: Sequence[Operand]) -> None:
    _same_length(node, what, found, expected)
    for a, b in zip(found, expected, strict=True):
        _expect(a.type == b.type, f"'{node.op}' at {node.source}: {what} {a} is {a.type}, expected {b.type}")


def _define(value: Value, scope: set[Value], seen: set[int], by: str) -> None:
    _expect(value.index not in seen, f"{by} defines {value} again")
    seen.add(value.index)
    scope.add(value)


def _in_scope(operand: Operand, scope: set[Value]) -> bool:
    return not isinstance(operand, Value) or operand in scope


def _expect(condition: bool, message: str) -> None:
    if not condition:
        raise VerificationError(message)
