"""Fused operations: what XLA runs as one loop, and which values it writes to memory.

XLA merges elementwise chains into one loop, so the values inside are never written, cost no bandwidth and no
memory, and cannot be communicated: everything in the loop has one layout. A value is taken to be
*materialised* if it leaves the graph, if something that is not fused reads or makes it, if it is a scalar
(cheap enough to be made wherever it is wanted), if it is read far from where it was made (a residual kept
for the backward pass), or if it is read in two orders of its dims: no split gives a device both its part of
``y`` and that of ``y.T``, so one of them has to be moved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ..ir import Graph, Node, Operand, Value
from .op_kind import fuses_operands, is_fusible

# Beyond this many nodes a reader belongs to another loop; about the length of a normalisation or activation.
_REACH_NODES = 48


@dataclass(frozen=True, eq=False)
class FusedOperation:
    """Nodes that run as one: a single operation, or a loop of fused ones.

    Attributes:
        nodes: in program order.
        operands: values read from outside. A loop reads each once for each order of its dims; an operation
            that is not fused may want one value in two layouts, so it has one entry for each operand
            position.
        wires: for each node, for each of its operands, the index into ``operands``, or None for a literal or
            a value made inside.
        materialised: results that are written to memory.
    """

    nodes: tuple[Node, ...]
    operands: tuple[Value, ...] = field(init=False)
    wires: tuple[tuple[int | None, ...], ...] = field(init=False)
    materialised: frozenset[Value]

    def __post_init__(self) -> None:
        inside = {r for node in self.nodes for r in node.results}
        reads = _Reads(shared=is_fusible(self.nodes[0]))
        wires = tuple(tuple(reads.wire(node, o, inside) for o in node.operands) for node in self.nodes)
        object.__setattr__(self, "operands", tuple(reads.values))
        object.__setattr__(self, "wires", wires)

    @property
    def results(self) -> tuple[Value, ...]:
        """Values made by all nodes, in order."""
        return tuple(r for node in self.nodes for r in node.results)

    @property
    def anchor(self) -> Node:
        """The node that names the operation: the last one."""
        return self.nodes[-1]


class _Reads:
    """Numbers the reads of outside values.

    Attributes:
        values: the value of each read.
    """

    def __init__(self, shared: bool) -> None:
        """Begins with no read; ``shared`` reads of a value in one order of its dims are one."""
        self.values: list[Value] = []
        self._shared = shared
        self._numbers: dict[tuple[Value, tuple[int, ...] | None], int] = {}

    def wire(self, node: Node, operand: Operand, inside: Collection[Value]) -> int | None:
        """The number of a read; None for literals and values made inside."""
        if not isinstance(operand, Value) or operand in inside:
            return None
        key = (operand, _order(node))
        if not self._shared or key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(operand)
        return self._numbers[key]


def _order(node: Node) -> tuple[int, ...] | None:
    """The order in which a node's result has the dims of its operand; None where it keeps them."""
    permutation = tuple(node.params["permutation"]) if node.op == "transpose" else ()
    return None if permutation == tuple(sorted(permutation)) else permutation


def fused_operations(graph: Graph) -> Mapping[Node, FusedOperation]:
    """The fused operation of every node of one graph; nodes with regions stand alone."""
    written = materialised_values(graph)
    groups = _Groups(graph.nodes)
    maker = {r: node for node in graph.nodes for r in node.results}
    for node in graph.nodes:
        for operand in node.operands:
            if (
                isinstance(operand, Value)
                and operand in maker
                and operand not in written
                and is_fusible(node)
            ):
                groups.join(maker[operand], node)
    members: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        members.setdefault(groups.find(node), []).append(node)
    fused = {
        root: FusedOperation(tuple(nodes), _written_by(nodes, written)) for root, nodes in members.items()
    }
    return {node: fused[groups.find(node)] for node in graph.nodes}


def _written_by(nodes: Sequence[Node], written: frozenset[Value]) -> frozenset[Value]:
    return written.intersection(r for node in nodes for r in node.results)


class _Groups:
    """Union-find over nodes; the earliest node of a group stands for it."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._parent = {node: node for node in nodes}

    def find(self, node: Node) -> Node:
        while self._parent[node] is not node:
            self._parent[node] = node = self._parent[self._parent[node]]
        return node

    def join(self, a: Node, b: Node) -> None:
        first, second = sorted((self.find(a), self.find(b)), key=lambda n: n.index)
        self._parent[second] = first


def materialised_values(graph: Graph) -> frozenset[Value]:
    """Values of one graph, regions excluded, that are written to memory."""
    found = set(graph.inputs) | set(graph.constants)
    found.update(o for o in graph.outputs if isinstance(o, Value))
    position: dict[Value, int] = {}
    for i, node in enumerate(graph.nodes):
        found.update(_read_from_memory(node, i, position))
        position.update(dict.fromkeys(node.results, i))
        fused = is_fusible(node)
        found.update(r for r in node.results if not fused or r.type.rank == 0)
    return frozenset(found | _read_in_two_orders(graph))


def _read_in_two_orders(graph: Graph) -> set[Value]:
    orders: dict[Value, set[tuple[int, ...] | None]] = {}
    for node in graph.nodes:
        if is_fusible(node):
            for operand in node.operands:
                if isinstance(operand, Value):
                    orders.setdefault(operand, set()).add(_order(node))
    return {value for value, found in orders.items() if len(found) > 1}


def _read_from_memory(node: Node, at: int, position: Mapping[Value, int]) -> list[Value]:
    values = [o for o in node.operands if isinstance(o, Value) and o in position]
    if not fuses_operands(node):
        return values
    return [v for v in values if at - position[v] > _REACH_NODES]
