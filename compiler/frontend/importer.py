"""Turns a jaxpr into the graph IR.

Calls without meaning of their own (``jit``, ``custom_jvp``, ``custom_vjp``, closed calls) are inlined.
``scan``, ``while``, ``cond`` and ``remat`` stay nodes, with their bodies as regions. Operations whose results
nobody reads are dropped unless they have an effect.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir import Graph, Literal, Node, Operand, Source, TensorType, Value
from ..jax_compat import ClosedJaxpr, JaxLiteral, Jaxpr, JaxprEqn, user_source

# Where each inlined call keeps its program.
_INLINED = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_lin": "call_jaxpr",
}

# Where each operation with regions keeps its programs; one parameter may hold several.
REGION_PARAMS: Mapping[str, tuple[str, ...]] = {
    "scan": ("jaxpr",),
    "while": ("cond_jaxpr", "body_jaxpr"),
    "cond": ("branches",),
    "remat2": ("jaxpr",),
    "checkpoint": ("jaxpr",),
}


def import_jaxpr(closed: ClosedJaxpr, num_closed_over: int = 0) -> tuple[Graph, int, int]:
    """Imports a closed jaxpr.

    Args:
        closed: the jaxpr.
        num_closed_over: how many leading inputs are no arguments, but values of a transformation around the
            program that it closes over. They become constants without an array.

    Returns:
        The graph, the number of values and the number of nodes, nested regions included.
    """
    importer = _Importer()
    graph = _close_over(importer.graph(closed), num_closed_over)
    return graph, next(importer.value_index), next(importer.node_index)


def _close_over(graph: Graph, count: int) -> Graph:
    return dataclasses.replace(
        graph,
        inputs=graph.inputs[count:],
        constants=(*graph.inputs[:count], *graph.constants),
        constant_values=(*(None for _ in range(count)), *graph.constant_values),
    )


def tensor_type(aval: Any) -> TensorType:
    """The IR type of an abstract value; tokens and other shapeless values count as empty scalars."""
    if not hasattr(aval, "shape"):
        return TensorType((), type(aval).__name__, 0)
    itemsize = 0 if str(aval.dtype) == "float0" else int(aval.dtype.itemsize)
    return TensorType(tuple(aval.shape), str(aval.dtype), itemsize)


class _Var:
    """A variable with a name of its own, since a body inlined twice brings JAX's variables twice."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval


_Atom = _Var | JaxLiteral


@dataclass(frozen=True)
class _Call:
    """One equation left after inlining, reading and writing ``_Var``s.

    Attributes:
        eqn: the equation.
        operands: what it reads.
        results: what it defines.
        source: its own source line, or that of the innermost inlined call around it that has one.
    """

    eqn: JaxprEqn
    operands: list[_Atom]
    results: list[_Var]
    source: Source | None


class _Flattener:
    """Inlines calls: one jaxpr's equations in a row, and the constants that inlined bodies close over."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []
        self.constants: list[tuple[_Var, Any]] = []
        self._site: Source | None = None

    def run(self, jaxpr: Jaxpr, arguments: Sequence[_Atom], consts: Sequence[Any]) -> list[_Atom]:
        names: dict[Any, _Atom] = dict(zip(jaxpr.invars, arguments, strict=True))
        for var, array in zip(jaxpr.constvars, consts, strict=True):
            names[var] = self._constant(var, array)
        for eqn in jaxpr.eqns:
            operands = [_resolve(v, names) for v in eqn.invars]
            names.update(zip(eqn.outvars, self._equation(eqn, operands), strict=True))
        return [_resolve(v, names) for v in jaxpr.outvars]

    def _constant(self, var: Any, array: Any) -> _Var:
        """One variable for an array, however many inlined bodies close over it."""
        for known, other in self.constants:
            if other is array:
                return known
        self.constants.append((_Var(var.aval), array))
        return self.constants[-1][0]

    def _equation(self, eqn: JaxprEqn, operands: list[_Atom]) -> Sequence[_Atom]:
        source = user_source(eqn.source_info) or self._site
        if eqn.primitive.name in _INLINED:
            outer, self._site = self._site, source
            inlined = self.run(*_split(eqn.params[_INLINED[eqn.primitive.name]], operands))
            self._site = outer
            return inlined
        results = [_Var(v.aval) for v in eqn.outvars]
        self.calls.append(_Call(eqn, operands, results, source))
        return results


def _resolve(var: Any, names: Mapping[Any, _Atom]) -> _Atom:
    return var if isinstance(var, JaxLiteral) else names[var]


def _split(
    program: ClosedJaxpr | Jaxpr, arguments: Sequence[_Atom]
) -> tuple[Jaxpr, Sequence[_Atom], Sequence[Any]]:
    closed = isinstance(program, ClosedJaxpr)
    return (program.jaxpr, arguments, program.consts) if closed else (program, arguments, ())


def _live(calls: Sequence[_Call], outputs: Sequence[_Atom]) -> list[_Call]:
    needed = {v for v in outputs if isinstance(v, _Var)}
    live = []
    for call in reversed(calls):
        if call.eqn.effects or not needed.isdisjoint(call.results):
            live.append(call)
            needed.update(v for v in call.operands if isinstance(v, _Var))
    return live[::-1]


class _Importer:
    """Numbers values and nodes in program order while it walks nested jaxprs."""

    def __init__(self) -> None:
        self.value_index = itertools.count()
        self.node_index = itertools.count()

    def graph(self, program: ClosedJaxpr | Jaxpr) -> Graph:
        arguments = [
            _Var(v.aval) for v in (program.jaxpr if isinstance(program, ClosedJaxpr) else program).invars
        ]
        flat = _Flattener()
        outputs = flat.run(*_split(program, arguments))
        env: dict[_Atom, Operand] = {}
        inputs = self._define(arguments, env)
        constants = self._define([var for var, _ in flat.constants], env)
        nodes = tuple(self._node(call, env) for call in _live(flat.calls, outputs))
        arrays = tuple(array for _, array in flat.constants)
        return Graph(inputs, constants, arrays, nodes, _read(outputs, env))

    def _define(self, variables: Sequence[_Var], env: dict[_Atom, Operand]) -> tuple[Value, ...]:
        values = tuple(Value(next(self.value_index), tensor_type(v.aval)) for v in variables)
        env.update(zip(variables, values, strict=True))
        return values

    def _node(self, call: _Call, env: dict[_Atom, Operand]) -> Node:
        eqn = call.eqn
        index = next(self.node_index)
        operands = _read(call.operands, env)
        regions = tuple(self.graph(program) for program in _region_programs(eqn))
        return Node(
            index=index,
            op=eqn.primitive.name,
            primitive=eqn.primitive,
            params=eqn.params,
            operands=operands,
            results=self._define(call.results, env),
            regions=regions,
            source=call.source,
            effectful=bool(eqn.effects),
            context=eqn.ctx,
            source_info=eqn.source_info,
        )


def _region_programs(eqn: JaxprEqn) -> Iterable[ClosedJaxpr | Jaxpr]:
    for name in REGION_PARAMS.get(eqn.primitive.name, ()):
        param = eqn.params[name]
        yield from param if isinstance(param, tuple) else (param,)


def _read(atoms: Sequence[_Atom], env: Mapping[_Atom, Operand]) -> tuple[Operand, ...]:
    return tuple(Literal(a.val, tensor_type(a.aval)) if isinstance(a, JaxLiteral) else env[a] for a in atoms)
