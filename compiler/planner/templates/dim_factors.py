"""Which dims of a whole program are one and the same: the batch, a layer's heads, the residual stream.

Every operation's rule says which dims of its operands and results share a factor. Identified along all values
of a program, loop bodies and carries included, the factors left are the program's own indices, found without
any name. A dim of several factors, major first, comes from a reshape.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import Graph, Node, Operand, Program, Value
from ...rules import RuleBook
from ...rules.factor_algebra import Factor, Tensor, free_tensor, identify, identify_tensors
from ...rules.fused import instantiate

DimFactors = tuple[Factor, ...]
Dims = tuple[DimFactors, ...]


def program_dims(program: Program, rules: RuleBook) -> dict[Value, Dims]:
    """The factors of each dim of each value; dims of size 1 have none.

    Args:
        program: the program.
        rules: factor rules of operations.
    """
    walk = _Walk(rules)
    walk.graph(program.graph)
    for output, carried in zip(program.graph.outputs, program.carried, strict=True):
        if carried is not None:
            walk.same((program.graph.inputs[carried],), (output,))
    return {value: tuple(map(_leaves, tensor)) for value, tensor in walk.tensors.items()}


def _leaves(dim: Sequence[Factor]) -> DimFactors:
    return tuple(leaf for factor in dim for leaf in factor.leaves() if leaf.size > 1)


class _Walk:
    """Gives every value a tensor of factors, and makes those of one index the same."""

    def __init__(self, rules: RuleBook) -> None:
        self.tensors: dict[Value, Tensor] = {}
        self._rules = rules

    def graph(self, graph: Graph) -> None:
        for value in (*graph.inputs, *graph.constants):
            self._tensor(value)
        for node in graph.nodes:
            enter = _REGIONS.get(node.op) if node.regions else None
            if enter is not None:
                enter(self, node)
            elif node.regions:
                self._stand_alone(node)
            else:
                self._node(node)

    def same(self, left: Sequence[Operand], right: Sequence[Operand], skip: tuple[int, int] = (0, 0)) -> None:
        """Pairs values dim by dim, from a dim of each on."""
        for a, b in zip(left, right, strict=True):
            if isinstance(a, Value) and isinstance(b, Value):
                pairs = zip(self._tensor(a)[skip[0] :], self._tensor(b)[skip[1] :], strict=True)
                for x, y in pairs:
                    identify(x, y)

    def _tensor(self, value: Value) -> Tensor:
        if value not in self.tensors:
            self.tensors[value] = free_tensor(value.type.shape)
        return self.tensors[value]

    def _node(self, node: Node) -> None:
        operands, results = instantiate(self._rules.rule(node), node)
        for operand, tensor in zip(node.operands, operands, strict=True):
            if isinstance(operand, Value):
                identify_tensors(self._tensor(operand), tensor)
        self.tensors.update(zip(node.results, results, strict=True))

    def _stand_alone(self, node: Node) -> None:
        for value in node.results:
            self._tensor(value)

    def _remat(self, node: Node) -> None:
        (body,) = node.regions
        self.same(node.operands, body.inputs)
        self.graph(body)
        self.same(body.outputs, node.results)

    def _cond(self, node: Node) -> None:
        for branch in node.regions:
            self.same(node.operands[1:], branch.inputs)
            self.graph(branch)
            self.same(node.results, branch.outputs)

    def _scan(self, node: Node) -> None:
        (body,) = node.regions
        first = node.params["num_consts"] + node.params["num_carry"]
        carries = node.params["num_carry"]
        self.same(node.operands[:first], body.inputs[:first])
        self.same(node.operands[first:], body.inputs[first:], skip=(1, 0))
        self.graph(body)
        self.same(body.inputs[node.params["num_consts"] : first], body.outputs[:carries])
        self.same(body.inputs[node.params["num_consts"] : first], node.results[:carries])
        self.same(body.outputs[carries:], node.results[carries:], skip=(0, 1))

    def _while(self, node: Node) -> None:
        condition, body = node.regions
        first, second = node.params["cond_nconsts"], node.params["body_nconsts"]
        self.same(node.operands[:first], condition.inputs[:first])
        self.same(node.operands[first:], body.inputs)
        self.same(body.inputs[second:], condition.inputs[first:])
        self.graph(condition)
        self.graph(body)
        self.same(body.inputs[second:], body.outputs)
        self.same(body.inputs[second:], node.results)


_REGIONS = {
    "remat2": _Walk._remat,
    "checkpoint": _Walk._remat,
    "cond": _Walk._cond,
    "scan": _Walk._scan,
    "while": _Walk._while,
}
