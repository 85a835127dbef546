"""Values that XLA makes again where they are read, instead of keeping them: what memory liveness must know.

XLA fuses a cheap elementwise producer into every loop that reads it. A value kept for the backward pass then
takes no memory of its own; what it is computed from is kept instead. XLA does so only where all readers can
take the producer in, and where it has to read no more than before: an addition of two arrays is kept, the
shifted, scaled or cast form of one array is made again.

Seen in what XLA 0.10.2 compiles: for GPUs functions such as ``exp`` are made again as well, and matrix
products read their operands from memory; for TPUs such functions count as expensive and are kept, and a
matrix product takes elementwise producers in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ...cost_models.compute import OpKind
from ..ir import Graph, Node, Value
from .op_kind import fuses_operands, is_fusible, op_kind

_EXPENSIVE = frozenset(
    {
        *("cbrt", "exp", "exp2", "expm1", "log", "log1p", "logistic", "pow", "rsqrt", "sqrt", "tanh", "erf"),
        *("sin", "cos", "tan", "atan2", "erf_inv", "random_bits", "lgamma", "digamma"),
    }
)
_PRODUCTS = (OpKind.MATMUL, OpKind.CONVOLUTION)
# Reading a little more than the value itself (a bias, a mean) does not keep XLA from fusing.
_MOST_READ = 1.1
_LEAST_SERVED = 1.5


def recomputed_values(
    graph: Graph, written: Collection[Value], kind: str
) -> Mapping[Value, tuple[Value, ...]]:
    """Written values of one graph that are made again where they are read.

    Args:
        graph: the graph; regions are apart.
        written: its values that are written to memory, from ``materialised_values``.
        kind: ``gpu``, ``tpu`` or ``cpu``.

    Returns:
        For each such value, the kept values it is made from.
    """
    fuser = _Fuser(graph, written, kind)
    # What is kept for others anyway costs nothing to read, which only a first round can tell.
    first = fuser.recomputed({})
    second = fuser.recomputed(_last_reads(graph, first))
    return _worthwhile(graph, second)


class _Fuser:
    """Decides for one graph what is made again."""

    def __init__(self, graph: Graph, written: Collection[Value], kind: str) -> None:
        self._graph = graph
        self._written = written
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
                if self._may_be_made_again(result, node) and self._reads_no_more(
                    result, made_from, last_reads
                ):
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

    def _reads_no_more(
        self, value: Value, made_from: Sequence[Value], last_reads: Mapping[Value, int]
    ) -> bool:
        until = max((reader.index for reader in self._readers.get(value, ())), default=-1)
        more = [v for v in made_from if v not in self._lasting and last_reads.get(v, -1) < until]
        return sum(v.type.bytes for v in more) <= _MOST_READ * value.type.bytes


def _worthwhile(graph: Graph, found: Mapping[Value, tuple[Value, ...]]) -> Mapping[Value, tuple[Value, ...]]:
    """Without the values that one array of about their own size would be kept for: that gains nothing.

    Such an array may even be larger on a device, where the value was split or summed after it was made.
    """
    last = _last_reads(graph, {})
    served: dict[Value, int] = dict.fromkeys((v for made_from in found.values() for v in made_from), 0)
    for value, made_from in found.items():
        for source in made_from:
            served[source] += value.type.bytes
    lasting = {*graph.inputs, *graph.constants}

    def pays(source: Value, until: int) -> bool:
        free = source in lasting or last.get(source, -1) >= until
        return free or served[source] >= _LEAST_SERVED * source.type.bytes

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
    return is_fusible(node) and not (kind == "tpu" and node.op in _EXPENSIVE)


def _takes_producer_in(node: Node, kind: str) -> bool:
    return fuses_operands(node) or (kind == "tpu" and op_kind(node) in _PRODUCTS)
