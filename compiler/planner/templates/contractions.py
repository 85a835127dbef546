"""Operations that apply a parameter to activations, and what the factors of the parameter do in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ...ir import Node, Value
from ...rules.factor_algebra import Factor
from .dim_factors import Dims

Factors = tuple[Factor, ...]
"""Different factors, in a fixed order."""


@dataclass(frozen=True, eq=False)
class Contraction:
    """A matrix product or convolution of activations with a parameter, or a look-up in one.

    Attributes:
        node: the operation.
        contracted: factors of the parameter that are summed, or looked up in.
        made: factors that the parameter brings into the result.
        experts: factors that both have and the result keeps: one set of parameters for each.
        passed: factors of the activations that pass through.
    """

    node: Node
    contracted: Factors
    made: Factors
    experts: Factors
    passed: Factors


def contraction_of(
    node: Node, active: Collection[Value], dims: Mapping[Value, Dims], batch: Factor | None
) -> Contraction | None:
    """How an operation applies a parameter, or None where it does not.

    Args:
        node: the operation.
        active: values that depend on the batch.
        dims: factors by value.
        batch: the batch's factor.
    """
    reader = _READERS.get(node.op)
    if reader is None:
        return None
    values = [o for o in node.operands if isinstance(o, Value)]
    plain = [i for i, v in enumerate(values) if v not in active and batch not in _all(dims[v])]
    if len(values) != 2 or len(plain) != 1:
        return None
    (weight,) = plain
    if not values[weight].type.rank:
        return None
    return reader(node, weight, dims[values[weight]], dims[values[1 - weight]])


def _product(node: Node, weight: int, of_weight: Dims, of_other: Dims) -> Contraction:
    contracting, batched = node.params["dimension_numbers"]
    summed, shared = contracting[weight], batched[weight]
    made = [d for d in range(len(of_weight)) if d not in summed and d not in shared]
    taken = {*contracting[1 - weight], *batched[1 - weight]}
    passed = [d for d in range(len(of_other)) if d not in taken]
    return Contraction(
        node, _at(of_weight, summed), _at(of_weight, made), _at(of_weight, shared), _at(of_other, passed)
    )


def _convolution(node: Node, weight: int, of_weight: Dims, of_other: Dims) -> Contraction | None:
    """Windows slide over the other dims of the activations, so none of these passes through."""
    spec = node.params["dimension_numbers"]
    if weight != 1 or node.params["feature_group_count"] != 1 or node.params["batch_group_count"] != 1:
        return None
    made, summed = spec.rhs_spec[:2]
    passed = _at(of_other, spec.lhs_spec[:1])
    return Contraction(node, _at(of_weight, [summed]), _at(of_weight, [made]), (), passed)


def _lookup(node: Node, weight: int, of_weight: Dims, of_other: Dims) -> Contraction | None:
    """A product with a one-hot matrix that is not written out."""
    numbers = node.params["dimension_numbers"]
    if weight != 0 or numbers.operand_batching_dims:
        return None
    chosen = numbers.start_index_map
    made = [d for d in range(len(of_weight)) if d not in chosen]
    return Contraction(node, _at(of_weight, chosen), _at(of_weight, made), (), _all(of_other))


_READERS = {"dot_general": _product, "conv_general_dilated": _convolution, "gather": _lookup}


def _at(dims: Dims, chosen: Sequence[int]) -> Factors:
    return _all([dims[d] for d in chosen])


def _all(dims: Sequence[Sequence[Factor]]) -> Factors:
    return tuple(dict.fromkeys(f for dim in dims for f in dim))
