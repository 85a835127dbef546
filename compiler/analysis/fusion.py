"""Which values are written to memory, and which live only inside a fused loop.

XLA merges elementwise chains into one loop, so their inner values cost neither bandwidth nor memory. A value
is taken to be *materialised* if it leaves the graph, if something that is not fused reads or makes it, or if
it is read far from where it was made (a residual kept for the backward pass).
"""

from __future__ import annotations

from ..ir import Graph, Node, Value
from .op_kind import fuses_operands, is_fusible

# Beyond this many nodes a reader belongs to another fusion; about the length of a normalisation or activation
# chain.
_REACH_NODES = 48


def materialised_values(graph: Graph) -> frozenset[Value]:
    """Values of one graph, regions excluded, that are written to memory."""
    found = set(graph.inputs) | set(graph.constants)
    found.update(o for o in graph.outputs if isinstance(o, Value))
    position: dict[Value, int] = {}
    for i, node in enumerate(graph.nodes):
        found.update(_read_from_memory(node, i, position))
        position.update(dict.fromkeys(node.results, i))
        if not is_fusible(node):
            found.update(node.results)
    return frozenset(found)


def _read_from_memory(node: Node, at: int, position: dict[Value, int]) -> list[Value]:
    values = [o for o in node.operands if isinstance(o, Value) and o in position]
    if not fuses_operands(node):
        return values
    return [v for v in values if at - position[v] > _REACH_NODES]
