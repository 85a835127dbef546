"""Splits that a rule allows and XLA gets wrong: they are taken out of the rule.

Each entry says what goes wrong and how it was found; it may go when the oldest supported release is mended.
"""

from __future__ import annotations

from dataclasses import replace

from ..ir import Node
from .factor import FactorRule


def restricted(node: Node, rule: FactorRule) -> FactorRule:
    """A rule without the splits that must not be used for a node."""
    if node.op.startswith("scatter") and _updates_one_place(node):
        return _fix_scattered_dims(node, rule)
    if node.op == "dynamic_update_slice":
        return _fix_updated_dims(node, rule)
    if node.op == "conv_general_dilated":
        return _restricted_convolution(node, rule)
    return rule


def _restricted_convolution(node: Node, rule: FactorRule) -> FactorRule:
    numbers = node.params["dimension_numbers"]
    if node.params["feature_group_count"] > 1:
        fix = _fix_features if _is_pointwise(node) else _fix_within_groups
        rule = fix(node, rule, numbers.lhs_spec[1])
    if node.params["batch_group_count"] > 1:
        rule = _fix_within_groups(node, rule, numbers.lhs_spec[0])
    return _fix_summed_windows(node, rule)


def _updates_one_place(node: Node) -> bool:
    indices = node.operands[1].type
    return indices.num_elements == indices.shape[-1]


def _fix_scattered_dims(node: Node, rule: FactorRule) -> FactorRule:
    """A scatter to one place becomes a dynamic update slice, clamped on devices that lack the place.

    With the operand sliced just before, XLA (jaxlib 0.10.2, CPU) folds the two slices and writes a row of
    another shard there: ``a.at[3].set(0)`` with ``a`` constrained to ``P("d")`` changes row 8 of 16.
    """
    scattered = node.params["dimension_numbers"].scatter_dims_to_operand_dims
    factors = {factor for dim in scattered for factor in rule.operands[0][dim]}
    return replace(rule, reduced=rule.reduced - factors, fixed=rule.fixed | factors)


def _fix_updated_dims(node: Node, rule: FactorRule) -> FactorRule:
    """Dims of which a dynamic update slice writes a part stay whole.

    Where such a dim is split, XLA (jaxlib 0.10.2, CPU) does not clamp a start index past the end: with two
    columns on two devices, an update of one column at index 2 changes none instead of the last.
    """
    operand, update = (o.type.shape for o in node.operands[:2])
    written = [d for d, (whole, part) in enumerate(zip(operand, update, strict=True)) if part < whole]
    factors = {factor for d in written for factor in rule.operands[0][d]}
    return replace(rule, reduced=rule.reduced - factors, fixed=rule.fixed | factors)


def _fix_within_groups(node: Node, rule: FactorRule, grouped: int) -> FactorRule:
    """Of grouped dims (``grouped`` of the input, features of kernel and output) whole groups are split.

    XLA (jaxlib 0.10.2, CPU) cuts the features of a group without cutting the number of groups: results are
    wrong, or the convolution is refused, as with 2 groups of 4 output features over (2, 2, 2) devices.
    """
    numbers = node.params["dimension_numbers"]
    inputs, kernel = {*rule.operands[0][grouped]}, {*rule.operands[1][numbers.rhs_spec[0]]}
    outputs = {*rule.results[0][numbers.out_spec[1]]}
    within = (inputs | kernel | outputs) - (inputs & kernel)
    return replace(rule, reduced=rule.reduced - within, fixed=rule.fixed | within)


def _fix_summed_windows(node: Node, rule: FactorRule) -> FactorRule:
    """Spatial dims that a convolution sums over (a kernel's gradient does) stay whole.

    XLA (jaxlib 0.10.2, CPU) sums over devices that hold the same parts as well, so that results come out
    multiplied. Made on parts (``local_call``), windows that reach over an edge would need its neighbours.
    """
    spatial = {f for d in node.params["dimension_numbers"].lhs_spec[2:] for f in rule.operands[0][d]}
    summed = spatial & rule.reduced
    return replace(rule, reduced=rule.reduced - summed, fixed=rule.fixed | summed)


def _is_pointwise(node: Node) -> bool:
    spatial = node.params["dimension_numbers"].rhs_spec[2:]
    kernel = node.operands[1].type.shape
    return all(kernel[d] == 1 for d in spatial)


def _fix_features(node: Node, rule: FactorRule, grouped: int) -> FactorRule:
    """XLA (jaxlib 0.10.2, CPU) aborts on a depthwise convolution of kernel size 1 with split channels."""
    numbers = node.params["dimension_numbers"]
    factors = {*rule.operands[0][grouped], *rule.results[0][numbers.out_spec[1]]}
    return replace(rule, reduced=rule.reduced - factors, fixed=rule.fixed | factors)
