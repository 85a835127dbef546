"""What the dims and arguments of a program are for, found in its graph alone.

An expert's recipe speaks of the batch, the heads, the experts, the weights. Here each is a set of the
program's factors (see ``dim_factors``) or of its arguments, whatever these are called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ...ir import Graph, Node, Program, Value, walk_nodes
from ...rules import RuleBook
from ...rules.factor_algebra import Factor
from .contractions import Contraction, contraction_of
from .dim_factors import Dims, program_dims
from .features import inner_features
from .role import Role


@dataclass(frozen=True, eq=False)
class Roles:
    """The roles of one program.

    Attributes:
        dims: factors of each dim of each value.
        role: of each factor that has one; the others are free.
        parameters: positions of inputs that activations depend on and that carry no batch.
        optimizer: positions of other inputs that a step gives out again.
        weighted: operations that apply a parameter to activations, forwards or backwards.
        routing: those of them that only score experts.
    """

    dims: Mapping[Value, Dims]
    role: Mapping[Factor, Role]
    parameters: frozenset[int]
    optimizer: frozenset[int]
    weighted: frozenset[Node]
    routing: frozenset[Node]

    def of_dims(self, value: Value) -> tuple[frozenset[Role], ...]:
        """The roles in each dim of a value."""
        return tuple(frozenset(self.role.get(f, Role.FREE) for f in dim) for dim in self.dims[value])

    @cached_property
    def sizes(self) -> Mapping[Role, frozenset[int]]:
        """The different sizes of each role's factors."""
        found: dict[Role, set[int]] = {role: set() for role in Role}
        for factor, role in self.role.items():
            found[role].add(factor.size)
        return {role: frozenset(sizes) for role, sizes in found.items()}


def find_roles(program: Program, rules: RuleBook) -> Roles:
    """The roles of a program.

    Args:
        program: the program.
        rules: factor rules of operations.
    """
    dims = program_dims(program, rules)
    batch = _batch(program, dims)
    fed = {v for v in program.graph.inputs if batch in _factors(dims[v])}
    active = _depending(program.graph, fed)
    found = [c for node in walk_nodes(program.graph) if (c := contraction_of(node, active, dims, batch))]
    weights = [v for v in program.graph.inputs if v not in fed and v.type.rank]
    used = _used_by_activations(program, dims, batch)
    parameters = {i for i, v in enumerate(program.graph.inputs) if v in weights and v in used}
    carried = {c for c in program.carried if c is not None}
    role = _roles_of(found, batch, {f for v in weights for f in _factors(dims[v])})
    optimizer = {i for i, v in enumerate(program.graph.inputs) if v in weights and i in carried - parameters}
    weighted = frozenset(c.node for c in found)
    routing = frozenset(c.node for c in found if _only_scores(c, role))
    return Roles(dims, role, frozenset(parameters), frozenset(optimizer), weighted, routing)


def _only_scores(c: Contraction, role: Mapping[Factor, Role]) -> bool:
    """Whether experts are all that a parameter makes of features, or the other way about."""
    sides = [{role[f] for f in side} for side in (c.contracted, c.made)]
    return not c.experts and {Role.EXPERT} in sides


def _roles_of(found: list[Contraction], batch: Factor | None, of_weights: set[Factor]) -> dict[Factor, Role]:
    """A factor's role; of several, the one named last here."""
    experts = {f for c in found for f in c.experts}
    features = {f for c in found for f in (*c.contracted, *c.made)} - experts
    passed = {f for c in found for f in c.passed} - features - experts
    inner = inner_features(found, features)
    role = dict.fromkeys(of_weights, Role.OTHER)
    role |= dict.fromkeys(features - inner, Role.STREAM)
    role |= dict.fromkeys(inner, Role.INNER)
    role |= dict.fromkeys(passed, Role.SEQUENCE)
    role |= dict.fromkeys(experts, Role.EXPERT)
    if batch is not None:
        role[batch] = Role.BATCH
    return role


def _factors(dims: Dims) -> set[Factor]:
    return {f for dim in dims for f in dim}


def _batch(program: Program, dims: Mapping[Value, Dims]) -> Factor | None:
    """The factor of an input that most results carry; state has none of it.

    One that stands twice in a value (the positions of attention) is taken only where there is no other.
    """
    inputs = program.graph.inputs
    kept = {f for c in program.carried if c is not None for f in _factors(dims[inputs[c]])}
    seen: dict[Factor, int] = {}
    for i, value in enumerate(inputs):
        if i not in program.carried:
            for d, dim in enumerate(dims[value]):
                for factor in dim:
                    seen.setdefault(factor, d)
    counts: Counter[Factor] = Counter()
    twice: set[Factor] = set()
    for node in walk_nodes(program.graph):
        for result in node.results:
            here = Counter(f for dim in dims[result] for f in dim) if result in dims else Counter()
            counts.update(here.keys())
            twice.update(f for f, n in here.items() if n > 1)
    candidates = [f for f in seen if f not in kept]
    return max(candidates, key=lambda f: (f not in twice, counts[f], -seen[f]), default=None)


def _depending(graph: Graph, sources: set[Value]) -> frozenset[Value]:
    """All values that depend on some, regions included."""
    found = set(sources)
    while True:
        before = len(found)
        _spread(graph, found)
        if len(found) == before:
            return frozenset(found)


def _spread(graph: Graph, found: set[Value]) -> None:
    for node in graph.nodes:
        if not node.regions:
            if not found.isdisjoint(o for o in node.operands if isinstance(o, Value)):
                found.update(node.results)
            continue
        for sources, targets in _passes(node):
            found.update(t for s, t in zip(sources, targets, strict=True) if s in found)
        for region in node.regions:
            _spread(region, found)
        for sources, targets in _returns(node):
            found.update(t for s, t in zip(sources, targets, strict=True) if s in found)


def _passes(node: Node) -> Iterator[tuple[tuple, tuple]]:
    """Operands and the region inputs that they become."""
    if node.op == "while":
        condition, body = node.regions
        first, second = node.params["cond_nconsts"], node.params["body_nconsts"]
        yield node.operands[:first] + node.operands[first + second :], condition.inputs
        yield node.operands[first:], body.inputs
        return
    operands = node.operands[1:] if node.op == "cond" else node.operands
    for region in node.regions:
        if len(region.inputs) == len(operands):
            yield operands, region.inputs


def _returns(node: Node) -> Iterator[tuple[tuple, tuple]]:
    """Region outputs and what they become: results, and carries of the next trip."""
    for region in node.regions:
        if len(region.outputs) == len(node.results):
            yield region.outputs, node.results
    if node.op == "scan":
        first, count = node.params["num_consts"], node.params["num_carry"]
        yield node.regions[0].outputs[:count], node.regions[0].inputs[first : first + count]
    elif node.op == "while":
        yield node.regions[1].outputs, node.regions[1].inputs[node.params["body_nconsts"] :]


def _used_by_activations(
    program: Program, dims: Mapping[Value, Dims], batch: Factor | None
) -> frozenset[Value]:
    """Values that something which carries the batch depends on."""
    found: set[Value] = set()
    _ancestors(program.graph, dims, batch, found)
    return frozenset(found)


def _ancestors(graph: Graph, dims: Mapping[Value, Dims], batch: Factor | None, found: set[Value]) -> None:
    """Walks backwards; an operation with regions is one whole."""
    for node in reversed(graph.nodes):
        made = [*node.results, *(r for g in node.regions for n in walk_nodes(g) for r in n.results)]
        if any(v in found or (v in dims and batch in _factors(dims[v])) for v in made):
            found.update(o for o in node.operands if isinstance(o, Value))
