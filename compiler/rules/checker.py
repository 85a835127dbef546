"""Checks rules by execution: runs a call on parts of its operands and compares with the whole.

A factor cut into ``n`` parts cuts every dim it stands in; seen as the grid of its factors, the dim is sliced
along that factor. Each part is run by itself on one device. The parts of a result that has the factor must be
the slices of the whole; those of one that has not must sum to it where the factor is reduced, and be equal to
it elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ArgumentError, UnsupportedError
from ..frontend import TraceOptions, function_name, trace_program
from ..ir import Graph, Node, Value
from ..jax_compat import bind
from .declaration import Declaration
from .declared import OPAQUE, call_name, declaration_of
from .factor import TensorFactors
from .local_call import bind_local, part_shapes, possible_rule

# Runs a call on parts of its operands, given the shapes of the parts of its results.
RunPart = Callable[[Sequence[Any], Sequence[tuple[int, ...]]], Sequence[Any]]


@dataclass(frozen=True)
class CheckedFactor:
    """What became of one factor of one call.

    Attributes:
        name: the factor, as declared.
        size: its size.
        outcome: ``"equal"``; or why it was not cut.
        splits: into how many parts a plan may cut it at most.
    """

    name: str
    size: int
    outcome: str
    splits: int

    def __str__(self) -> str:
        return f"  {self.name}={self.size}: {self.outcome}, at most {self.splits} parts in a plan"


@dataclass(frozen=True)
class CheckedCall:
    """One call, its declared rule and its factors."""

    name: str
    source: str
    declared: str
    factors: tuple[CheckedFactor, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.name} at {self.source}: {self.declared}", *map(str, self.factors)])


@dataclass(frozen=True)
class RuleReport:
    """What ``check_rule`` ran, all of it equal; prints as a table.

    Attributes:
        calls: the calls with a declared rule, in program order.
    """

    calls: tuple[CheckedCall, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.calls))


def check_rule(fun: Callable[..., Any], *args: Any, axis_size: int = 2) -> RuleReport:
    """Checks every declared rule that a function uses by running its calls on parts, on one device.

    Args:
        fun: a function with calls that have a declared rule, outside of loops and branches.
        *args: its arguments: concrete arrays, because the calls are run.
        axis_size: into how many parts each factor is cut.

    Returns:
        The calls and their factors, printable.

    Raises:
        ArgumentError: where a rule is wrong, with the call, the factor and the difference; where no call has
            a rule, or a rule does not fit its call.

    Example:
        ``print(mw.check_rule(lambda q, k, v: flash_attention(q, k, v), q, k, v))``
    """
    if not isinstance(axis_size, int) or axis_size < 2:
        raise ArgumentError(f"axis_size={axis_size!r}: a factor is cut into two parts or more.")
    program = trace_program(fun, TraceOptions(), args, {})
    graph, calls = program.graph, []

    def check(node: Node, operands: Sequence[Any], results: Sequence[Any]) -> None:
        declaration = declaration_of(node)
        if declaration is not None:
            again = _retrace(fun, args) if _is_the_call(graph, node) else None
            calls.append(_Check(node, declaration, operands, results, axis_size, again).run())

    _run(graph, jax.tree.leaves(args), check)
    if not calls:
        opaque = ", ".join(sorted({call_name(n) or n.op for n in graph.nodes if n.op in OPAQUE})) or "none"
        raise ArgumentError(
            f"{function_name(fun)} makes no call with a declared rule (opaque calls: {opaque})."
        )
    return RuleReport(tuple(calls))


def _run(graph: Graph, arguments: Sequence[Any], seen: Callable[..., None]) -> None:
    """Runs a graph one operation at a time and shows each with what it read and made."""
    env: dict[Value, Any] = dict(zip(graph.inputs, arguments, strict=True))
    env.update(zip(graph.constants, graph.constant_values, strict=True))
    for node in graph.nodes:
        operands = [env[o] if isinstance(o, Value) else o.value for o in node.operands]
        results = bind(node.primitive, operands, node.params)
        env.update(zip(node.results, results, strict=True))
        seen(node, operands, results)


def _is_the_call(graph: Graph, node: Node) -> bool:
    """Whether a program is one call of its arguments, so that calling it on parts makes the call on parts."""
    return (graph.nodes, graph.inputs, graph.outputs) == ((node,), node.operands, node.results)


def _retrace(fun: Callable[..., Any], args: Sequence[Any]) -> RunPart:
    tree = jax.tree.structure(args)
    return lambda parts, _: jax.tree.leaves(fun(*jax.tree.unflatten(tree, parts)))


class _Check:
    """One call under check."""

    def __init__(
        self,
        node: Node,
        declaration: Declaration,
        operands: Sequence[Any],
        results: Sequence[Any],
        parts: int,
        again: RunPart | None,
    ) -> None:
        self._node, self._declaration, self._parts, self._again = node, declaration, parts, again
        self._operands, self._results = [np.asarray(x) for x in operands], [np.asarray(x) for x in results]
        self._name = call_name(node) or node.op
        try:
            self._rule = declaration.apply(node)
        except ArgumentError as error:
            raise ArgumentError(f"the rule of {self._name}, {declaration}, does not fit: {error}") from error

    def run(self) -> CheckedCall:
        possible = possible_rule(self._node, self._rule)
        factors = [
            CheckedFactor(name, size, self._factor(f, name), 1 if f in possible.fixed else possible.sizes[f])
            for f, (name, size) in enumerate(
                zip(self._declaration.factor_names(self._node), self._rule.sizes, strict=True)
            )
        ]
        return CheckedCall(self._name, str(self._node.source), str(self._declaration), tuple(factors))

    def _factor(self, factor: int, name: str) -> str:
        if factor not in self._rule.splittable():
            return "fixed"
        if self._rule.sizes[factor] % self._parts:
            return f"not checked ({self._parts} does not divide it)"
        shapes = part_shapes(self._node, self._rule, factor, self._parts)[1]
        try:
            made = [self._run_part(self._cut_all(factor, part), shapes) for part in range(self._parts)]
        except UnsupportedError as error:
            return f"not checked ({error})"
        except Exception as error:  # whatever a kernel or a callback raises on shapes it was not made for
            raise self._wrong(name, f"the call fails: {_reason(error)}") from error
        for port in range(len(self._results)):
            problem = self._difference(factor, port, [np.asarray(m[port]) for m in made])
            if problem:
                raise self._wrong(name, problem)
        return "equal"

    def _wrong(self, name: str, problem: str) -> ArgumentError:
        return ArgumentError(
            f"the rule of {self._name} at {self._node.source}, {self._declaration}, is wrong about {name}: "
            f"with {name} in {self._parts} parts, {problem}. If {name} is needed whole, add it to fixed; if "
            "its parts are to be summed, add it to reduced."
        )

    def _run_part(self, operands: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> Sequence[Any]:
        try:
            return bind_local(self._node, operands, shapes)
        except UnsupportedError:
            if self._again is None:
                raise
            return self._again(operands, shapes)

    def _cut_all(self, factor: int, part: int) -> list[np.ndarray]:
        pairs = zip(self._operands, self._rule.operands, strict=True)
        return [self._cut(x, tensor, factor, part) for x, tensor in pairs]

    def _cut(self, array: np.ndarray, tensor: TensorFactors, factor: int, part: int) -> np.ndarray:
        for axis, dim in enumerate(tensor):
            if factor in dim:
                grid = [self._rule.sizes[f] for f in dim]
                before, after = array.shape[:axis], array.shape[axis + 1 :]
                whole = array.reshape(*before, *grid, *after)
                step = self._rule.sizes[factor] // self._parts
                chosen = range(part * step, (part + 1) * step)
                array = np.take(whole, chosen, axis=axis + dim.index(factor)).reshape(*before, -1, *after)
        return array

    def _difference(self, factor: int, port: int, made: Sequence[np.ndarray]) -> str | None:
        """What is wrong with the parts of one result; None where nothing is."""
        whole, tensor = self._results[port], self._rule.results[port]
        if any(factor in dim for dim in tensor):
            pairs = [(part, self._cut(whole, tensor, factor, i)) for i, part in enumerate(made)]
        elif factor in self._rule.reduced:
            pairs = [(np.sum(made, axis=0), whole)]
        else:
            pairs = [(part, whole) for part in made]
        for i, (found, expected) in enumerate(pairs):
            if found.shape != expected.shape:
                return f"part {i} of result {port} has shape {found.shape} instead of {expected.shape}"
            error = _error(found, expected)
            if error:
                return f"part {i} of result {port} differs by {error:.2g} of its largest value"
        return None


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if "rror: " in line or "rror:" in line]
    return lines[-1] if lines else f"{type(error).__name__}: {str(error).strip()[:200]}"


def _error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference relative to the largest value; 0 where rounding explains it."""
    inexact = np.issubdtype(expected.dtype, np.inexact) or expected.dtype.kind == "V"
    kind = np.complex128 if np.iscomplexobj(expected) else np.float64
    a, b = found.astype(kind), expected.astype(kind)
    if not a.size or np.array_equal(a, b, equal_nan=True):
        return 0.0
    error = float(np.nanmax(np.abs(a - b)) / max(float(np.nanmax(np.abs(b))), 1e-30))
    mismatched = bool(np.any(np.isnan(a) != np.isnan(b)))
    return error if mismatched or not inexact or error > _tolerance(expected.dtype) else 0.0


def _tolerance(dtype: Any) -> float:
    """Between a number's precision and its root: 1e-5 for float32, 0.03 for bfloat16."""
    return float(jnp.finfo(dtype).eps) ** 0.7
