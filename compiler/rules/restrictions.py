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
    if node.op == "conv_general_dilated":
        return _restricted_convolution(node, rule)
    return rule


def _restricted_convolution(node: Node, rule: FactorRule) -> FactorRule:
    has_features, has_batches = (node.params[f"{name}_group_count"] > 1 for name in ("feature", "batch"))
    if has_features:
        rule = _fix_features(node, rule) if _is_pointwise(node) else _fix_within_groups(node, rule)
    return _fix_summed_windows(node, rule) if has_features or has_batches else rule


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


def _fix_within_groups(node: Node, rule: FactorRule) -> FactorRule:
    """Of features only whole groups are split.

    XLA (jaxlib 0.10.2, CPU) cuts the features of a group without cutting the number of groups: results are
    wrong, or the convolution is refused, as with 2 groups of 4 output features over (2, 2, 2) devices.
    """
    numbers = node.params["dimension_numbers"]
    inputs = rule.operands[0][numbers.lhs_spec[1]]
    outputs = rule.results[0][numbers.out_spec[1]]
    within = {*inputs, *outputs} - ({*inputs} & {*outputs})
    return replace(rule, reduced=rule.reduced - within, fixed=rule.fixed | within)


def _fix_summed_windows(node: Node, rule: FactorRule) -> FactorRule:
    """The spatial dims of a grouped convolution's contraction stay whole.

    Contractions of grouped convolutions are made on parts (``local_call``), where windows that reach over the
    edge of a part would need their neighbours.
    """
    spatial = {f for d in node.params["dimension_numbers"].lhs_spec[2:] for f in rule.operands[0][d]}
    summed = spatial & rule.reduced
    return replace(rule, reduced=rule.reduced - summed, fixed=rule.fixed | summed)


def _is_pointwise(node: Node) -> bool:
    spatial = node.params["dimension_numbers"].rhs_spec[2:]
    kernel = node.operands[1].type.shape
    return all(kernel[d] == 1 for d in spatial)


def _fix_features(node: Node, rule: FactorRule) -> FactorRule:
    """XLA (jaxlib 0.10.2, CPU) aborts on a depthwise convolution of kernel size 1 with split channels."""
    numbers = node.params["dimension_numbers"]
    factors = {*rule.operands[0][numbers.lhs_spec[1]], *rule.results[0][numbers.out_spec[1]]}
    return replace(rule, reduced=rule.reduced - factors, fixed=rule.fixed | factors)
