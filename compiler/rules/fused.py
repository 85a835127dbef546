"""Rules of fused operations: the factors of their nodes, identified along the values between them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from ..analysis.fusion import FusedOperation
from ..ir import Literal, Node, Operand, Value
from .factor import FactorRule, TensorFactors
from .factor_algebra import Factor, Tensor, close, fix, free_tensor, identify_tensors
from .linearity import LinearGroup, linear_groups
from .registry import rule_key


def fused_key(operation: FusedOperation) -> Hashable:
    """What a fused operation's rule depends on: its nodes, and how they read each other."""
    if len(operation.nodes) == 1:
        return (rule_key(operation.nodes[0]), operation.wires)
    number = {r: i for i, r in enumerate(operation.results)}
    inner = tuple(
        tuple(number.get(o, -1) if isinstance(o, Value) else -2 for o in node.operands)
        for node in operation.nodes
    )
    return (tuple(rule_key(node) for node in operation.nodes), operation.wires, inner)


def fused_rule(operation: FusedOperation, rule_of: Callable[[Node], FactorRule]) -> FactorRule:
    """The factor rule of a fused operation.

    Args:
        operation: the operation.
        rule_of: the rule of one node.

    Returns:
        A rule over ``operation.operands`` and ``operation.results``, inner results included.
    """
    outside = [free_tensor(value.type.shape) for value in operation.operands]
    inside: dict[Value, Tensor] = {}
    for node, wires in zip(operation.nodes, operation.wires, strict=True):
        operands, results = instantiate(rule_of(node), node)
        for operand, wire, tensor in zip(node.operands, wires, operands, strict=True):
            if wire is not None:
                identify_tensors(outside[wire], tensor)
            elif isinstance(operand, Value):
                identify_tensors(inside[operand], tensor)
        inside.update(zip(node.results, results, strict=True))
    return close(outside, [inside[r] for r in operation.results])


def fused_linear_groups(operation: FusedOperation) -> tuple[LinearGroup, ...]:
    """Groups of outside operands through which the whole operation is linear.

    Tried are each operand alone and all arrays together (addends of one sum).
    """
    arrays = tuple(
        i for i, value in enumerate(operation.operands) if value.type.rank or len(operation.nodes) == 1
    )
    candidates = [*((i,) for i in range(len(operation.operands))), *([arrays] if len(arrays) > 1 else [])]
    return tuple(group for group in candidates if pending_results(operation, group) is not None)


def pending_results(operation: FusedOperation, group: LinearGroup) -> tuple[bool, ...] | None:
    """Which results are pending sums where the operands of a group are.

    None where the operation is not linear in them. Inside a loop a factor that is the same for all elements
    (a learning rate) counts as a number.
    """
    pending: set[Value] = set()
    uniform: set[Value] = set()
    for node, wires in zip(operation.nodes, operation.wires, strict=True):
        positions = _pending_positions(node, wires, group, pending)
        if positions:
            if positions not in linear_groups(node) and not _scales(node, positions, uniform):
                return None
            pending.update(node.results)
        elif all(isinstance(o, Literal) or o.type.rank == 0 or o in uniform for o in node.operands):
            uniform.update(node.results)
    flags = tuple(r in pending for r in operation.results)
    return flags if any(flags) else None


def _pending_positions(
    node: Node, wires: Sequence[int | None], group: LinearGroup, pending: set[Value]
) -> tuple[int, ...]:
    pairs = enumerate(zip(node.operands, wires, strict=True))
    return tuple(i for i, (o, wire) in pairs if (wire in group if wire is not None else o in pending))


def _scales(node: Node, positions: tuple[int, ...], uniform: set[Value]) -> bool:
    """Whether a node multiplies its one pending operand by, or divides it by, a uniform value."""
    if node.op not in ("mul", "div") or len(positions) != 1 or "float" not in node.results[0].type.dtype:
        return False
    (at,) = positions
    factor = node.operands[1 - at]
    return (factor in uniform or factor.type.rank == 0) and (node.op == "mul" or at == 0)


def instantiate(rule: FactorRule, node: Node) -> tuple[list[Tensor], list[Tensor]]:
    """Fresh factors for one use of a rule; a dim of no factor is a fixed one of its own."""
    factors = [Factor(size) for size in rule.sizes]
    for i in rule.fixed:
        factors[i].fixed = True
    for i in rule.reduced:
        factors[i].reduced = True
    operands = [_tensor(t, o, factors) for t, o in zip(rule.operands, node.operands, strict=True)]
    return operands, [_tensor(t, r, factors) for t, r in zip(rule.results, node.results, strict=True)]


def _tensor(dims: TensorFactors, operand: Operand, factors: Sequence[Factor]) -> Tensor:
    made = []
    for size, dim in zip(operand.type.shape, dims, strict=True):
        view = [factors[f] for f in dim]
        if not view and size > 1:
            view = [Factor(size)]
            fix(view)
        made.append(view)
    return made
