"""Reads factor rules from Shardy, the partitioner that XLA runs.

Equations are lowered to StableHLO, many functions in one module, and Shardy's own pass writes each
operation's rule beside it. The rules of one function are composed into the rule of its equation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from ..jax_compat import annotate_sharding_rules
from .factor import FactorRule
from .factor_algebra import Factor, Tensor, close, fix, free_tensor, identify, identify_tensors

_RULE = re.compile(r"#sdy\.op_sharding_rule<\((?P<operands>.*?)\)->\((?P<results>.*?)\)(?P<rest>.*)>$")
_TENSOR = re.compile(r"\[([^\]]*)\]")
_SIZES = re.compile(r"\{([^}]*)\}")
_LIST = re.compile(r"(reduction|need_replication|permutation|blocked_propagation)=\{([^}]*)\}")
_NAME = re.compile(r"_?[a-z](?:_\d+)?")

_BROADCASTS = {"stablehlo.broadcast_in_dim", "stablehlo.broadcast", "stablehlo.dynamic_broadcast_in_dim"}

_CHLO_WITH_STRUCTURE = {"chlo.top_k", "chlo.ragged_dot", "chlo.scan"}

# Each element of the result can be made where it is wanted, so every dim is free.
_GENERATORS = {"stablehlo.iota", "stablehlo.constant", "chlo.constant"}


def shardy_rules(functions: Sequence[tuple[Callable[..., Any], Sequence[Any]]]) -> list[FactorRule]:
    """The composed rules of several functions.

    Args:
        functions: pairs of a JAX function and its abstract arguments.

    Returns:
        One rule each; a function with operations that Shardy has no rule for gets one whose dims at those
        operations are fixed.
    """
    module = annotate_sharding_rules(functions)
    table = {str(f.attributes["sym_name"]).strip('"'): f for f in module.body.operations}
    calls = [
        op.operation
        for op in table["main"].regions[0].blocks[0].operations
        if op.operation.name == "func.call"
    ]
    rules = []
    for call in calls:
        operands = [free_tensor(_shape(v.type)) for v in call.operands]
        results = _Composer(table).call(table[_callee(call)], operands)
        rules.append(close(operands, results))
    return rules


def _callee(call: Any) -> str:
    return str(call.attributes["callee"]).lstrip("@").strip('"')


class _Composer:
    """Walks one function's operations and identifies factors across its tensors."""

    def __init__(self, table: dict[str, Any]) -> None:
        self._table = table

    def call(self, function: Any, operands: list[Tensor]) -> list[Tensor]:
        block = function.regions[0].blocks[0]
        env: dict[Any, Tensor] = dict(zip(block.arguments, operands, strict=True))
        for op in block.operations:
            operation = op.operation
            read = [env[v] for v in operation.operands]
            if operation.name == "func.return":
                return read
            env.update(zip(operation.results, self._operation(operation, read), strict=True))
        raise ValueError("a StableHLO function without a return")

    def _operation(self, operation: Any, operands: list[Tensor]) -> list[Tensor]:
        if operation.name == "func.call":
            return self.call(self._table[_callee(operation)], operands)
        results = [free_tensor(_shape(r.type)) for r in operation.results]
        if "sdy.sharding_rule" in operation.attributes:
            _apply(str(operation.attributes["sdy.sharding_rule"]), [*operands, *results])
            if operation.name not in _BROADCASTS:
                _fix_unread(operands, results)
        elif _is_elementwise_chlo(operation):
            for tensor in [*operands, *results][1:]:
                identify_tensors(operands[0], tensor)
        elif operation.name not in _GENERATORS:
            fix(f for tensor in (*operands, *results) for dim in tensor for f in dim)
        return results


def _is_elementwise_chlo(operation: Any) -> bool:
    """CHLO's mathematical functions have no rule until XLA legalises them, but all act element by element."""
    if not operation.name.startswith("chlo.") or operation.name in _CHLO_WITH_STRUCTURE:
        return False
    shapes = {_shape(v.type) for v in (*operation.operands, *operation.results)}
    return len(operation.operands) > 0 and len(shapes) == 1


def _fix_unread(operands: Sequence[Tensor], results: Sequence[Tensor]) -> None:
    """A result dim that no operand has (a solver's vectors) is made as a whole."""
    read = {leaf for tensor in operands for dim in tensor for f in dim for leaf in f.leaves()}
    fix(leaf for tensor in results for dim in tensor for f in dim for leaf in f.leaves() if leaf not in read)


def _apply(text: str, tensors: Sequence[Tensor]) -> None:
    """Identifies the dims of an operation's operands and results as its rule says."""
    factors, seen = _parse(text)
    for names, tensor in zip(seen, tensors, strict=True):
        for dim_names, dim in zip(names, tensor, strict=True):
            _identify_dim(dim, [factors[n] for n in dim_names])


def _identify_dim(dim: list[Factor], factors: list[Factor]) -> None:
    if math.prod(f.size for f in dim) == math.prod(f.size for f in factors):
        identify(dim, factors)
    else:
        # A slice or concatenation: the dim is part of its factor, shifted; no split of one is a split of the
        # other.
        fix([*dim, *factors])


def _parse(text: str) -> tuple[dict[str, Factor], list[list[list[str]]]]:
    """The rule's factors by name, and for each operand and result the names at each dim."""
    match = _RULE.match(text.strip())
    if match is None:
        raise ValueError(f"not an op sharding rule: {text}")
    rest = match["rest"]
    sizes = _SIZES.search(rest)
    factors = {}
    for item in sizes[1].split(",") if sizes and sizes[1] else []:
        name, size = item.strip().split("=")
        factors[name] = Factor(int(size))
    for kind, names in _LIST.findall(rest):
        for name in filter(None, (n.strip() for n in names.split(","))):
            factors[name].reduced |= kind == "reduction"
            factors[name].fixed |= kind in ("need_replication", "permutation")
    return factors, [*_tensors(match["operands"]), *_tensors(match["results"])]


def _tensors(text: str) -> list[list[list[str]]]:
    return [[_NAME.findall(dim) for dim in body.split(",") if dim.strip()] for body in _TENSOR.findall(text)]


def _shape(mlir_type: Any) -> tuple[int, ...]:
    return tuple(mlir_type.shape) if hasattr(mlir_type, "shape") else ()
