"""Values that XLA makes again where they are read, instead of keeping them: what memory liveness must know.

XLA fuses a cheap elementwise producer into every loop that reads it. A value kept for the backward pass then
takes no memory of its own; what it is computed from is kept instead, even where that is larger (the mask of a
ReLU is made again from the product before it). XLA does so only where all readers can take the producer in,
and where fewer bytes move than by writing it once and reading it back: a sum of two arrays that several loops
read is kept, the shifted, scaled or cast form of one array is made again.

Seen in what XLA 0.10.2 compiles: functions such as ``tanh`` count as expensive and are kept, as is ``exp`` on
TPUs, while GPUs make a softmax's ``exp`` again; on TPUs a matrix product takes elementwise producers in, on
GPUs it reads its operands from memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...cost_models.compute import OpKind
from ..ir import Graph, Node, Value
from .fusion import FusedOperation
from .op_kind import fuses_operands, is_fusible, op_kind

_EXPENSIVE = frozenset(
    {
        *("cbrt", "expm1", "log", "log1p", "logistic", "pow", "rsqrt", "sqrt", "tanh", "erf", "erf_inv"),
        *("sin", "cos", "tan", "atan2", "random_bits", "lgamma", "digamma"),
    }
)
_EXPONENTIALS = frozenset({"exp", "exp2"})
_PRODUCTS = (OpKind.MATMUL, OpKind.CONVOLUTION)
# A source that serves values of less than its own size, or of much more, is what XLA keeps of them.
_LESS, _MORE = 0.9, 1.5


def recomputed_values(
    graph: Graph, fused: Mapping[Node, FusedOperation], kind: str
) -> Mapping[Value, tuple[Value, ...]]:
    """Written values of one graph that are made again where they are read.

    Args:
        graph: the graph; regions are apart.
        fused: its operations, from ``fused_operations``.
        kind: ``gpu``, ``tpu`` or ``cpu``.

    Returns:
        For each such value, the kept values it is made from.
    """
    fuser = _Fuser(graph, fused, kind)
    # What is kept for others anyway costs nothing to read, which only a first round can tell.
    first = fuser.recomputed({})
    second = fuser.recomputed(_last_reads(graph, first))
    return _worthwhile(graph, second)


class _Fuser:
    """Decides for one graph what is made again."""

    def __init__(self, graph: Graph, fused: Mapping[Node, FusedOperation], kind: str) -> None:
        self._graph = graph
        self._fused = fused
        written = {value for operation in set(fused.values()) for value in operation.materialised}
        self._written = {*written, *graph.inputs, *graph.constants}
        self._kind = kind
        self._readers: dict[Value, list[Node]] = {}
        for node in graph.nodes:
            for operand in node.operands:
                if isinstance(operand, Value):
                    self._readers.setdefault(operand, []).append(node)
        self._outputs = {o for o in graph.outputs if isinstance(o, Value)}
        self._lasting = {*graph.inputs, *graph.constants}

    def recomputed(self, last_reads: Mapping[Value, int]) -> Mapping[Value, tuple[Value, ...]]:
        """The values made again, where others are kept until the nodes given."""
        sources: dict[Value, tuple[Value, ...]] = {}
        found: dict[Value, tuple[Value, ...]] = {}
        for node in self._graph.nodes:
            made_from = tuple(dict.fromkeys(self._kept(node, found, sources)))
            for result in node.results:
                sources[result] = made_from
                if self._may_be_made_again(result, node) and self._moves_less(result, made_from, last_reads):
                    found[result] = made_from
        return found

    def _kept(
        self, node: Node, found: Mapping[Value, object], sources: Mapping[Value, Sequence[Value]]
    ) -> list[Value]:
        """What a node's results are made from, back to values in memory."""
        kept: list[Value] = []
        for operand in node.operands:
            if isinstance(operand, Value):
                inside = operand in found or operand not in self._written
                kept += sources.get(operand, (operand,)) if inside else (operand,)
        return kept

    def _may_be_made_again(self, value: Value, maker: Node) -> bool:
        return (
            value in self._written
            and value.type.rank > 0
            and value not in self._outputs
            and is_cheap(maker, self._kind)
            and all(_takes_producer_in(reader, self._kind) for reader in self._readers.get(value, ()))
        )

    def _moves_less(self, value: Value, made_from: Sequence[Value], last_reads: Mapping[Value, int]) -> bool:
        """Whether making it in each of its readers moves fewer bytes than writing it once."""
        readers = self._readers.get(value, ())
        until = max((reader.index for reader in readers), default=-1)
        more = [v for v in made_from if v not in self._lasting and last_reads.get(v, -1) < until]
        source_bytes = sum(v.type.bytes for v in more)
        count = len({self._fused[reader] for reader in readers})
        return count * source_bytes <= source_bytes + (1 + count) * value.type.bytes


def _worthwhile(graph: Graph, found: Mapping[Value, tuple[Value, ...]]) -> Mapping[Value, tuple[Value, ...]]:
    """Without the values that one array of their own size would be kept for.

    It makes no difference there, but that array may be a sum still pending, which is larger on a device.
    """
    last = _last_reads(graph, {})
    served: dict[Value, list[int]] = {}
    for value, made_from in found.items():
        for source in made_from:
            served.setdefault(source, []).append(value.type.bytes)
    lasting = {*graph.inputs, *graph.constants}

    def pays(source: Value, until: int) -> bool:
        size, sizes = source.type.bytes, served[source]
        differs = min(sizes) < _LESS * size or sum(sizes) >= _MORE * size
        return differs or source in lasting or last.get(source, -1) >= until

    return {
        value: made_from
        for value, made_from in found.items()
        if all(pays(source, last.get(value, -1)) for source in made_from)
    }


def _last_reads(graph: Graph, recomputed: Mapping[Value, Sequence[Value]]) -> dict[Value, int]:
    """The last node that reads each value, or makes another from it again."""
    last: dict[Value, int] = {}
    for node in graph.nodes:
        for operand in node.operands:
            if isinstance(operand, Value):
                last.update(dict.fromkeys(recomputed.get(operand, (operand,)), node.index))
    return last


def is_cheap(node: Node, kind: str) -> bool:
    """Whether XLA makes a node's results again in each loop that reads them."""
    dear = node.op in _EXPENSIVE or (kind == "tpu" and node.op in _EXPONENTIALS)
    return is_fusible(node) and not dear


def _takes_producer_in(node: Node, kind: str) -> bool:
    return fuses_operands(node) or (kind == "tpu" and op_kind(node) in _PRODUCTS)
