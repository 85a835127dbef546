"""Finds the factor rule of any node: hand-written, Shardy's, or the replicated fallback."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from ..ir import Literal, Node
from ..ir.printer import format_params
from ..jax_compat import abstract_value, bind
from .factor import FactorRule, replicated_rule
from .manual import MANUAL_RULES
from .shardy import shardy_rules

_LOG = logging.getLogger("meshwright")


class RuleBook:
    """Factor rules by operation, parameters and types; equal operations share one rule.

    Shardy's rules are fetched for many nodes at once, because a compiler call costs far more than an
    operation in it.
    """

    def __init__(self) -> None:
        self._rules: dict[Hashable, FactorRule] = {}

    def prepare(self, nodes: Iterable[Node]) -> None:
        """Fetches the rules of all nodes that ``rule`` will be asked for."""
        missing: dict[Hashable, Node] = {}
        for node in nodes:
            key = rule_key(node)
            if key not in self._rules:
                missing.setdefault(key, node)
        for key, node in list(missing.items()):
            if node.op in MANUAL_RULES:
                self._rules[key] = MANUAL_RULES[node.op](missing.pop(key))
        self._rules.update(zip(missing, _fetch(list(missing.values())), strict=True))

    def rule(self, node: Node) -> FactorRule:
        """The rule of a node.

        Args:
            node: an operation without regions.
        """
        key = rule_key(node)
        if key not in self._rules:
            self.prepare([node])
        return self._rules[key]


def rule_key(node: Node) -> Hashable:
    """What a node's rule depends on."""
    types = tuple((isinstance(o, Literal), o.type) for o in node.operands)
    return (node.op, format_params(node.params), types, tuple(r.type for r in node.results))


def _fetch(nodes: Sequence[Node]) -> list[FactorRule]:
    """Shardy's rules; where one node cannot be lowered, the others must not suffer."""
    if not nodes:
        return []
    try:
        rules = shardy_rules([_function(node) for node in nodes])
        return [_logical(rule, node) for rule, node in zip(rules, nodes, strict=True)]
    except Exception as error:
        if len(nodes) > 1:
            half = len(nodes) // 2
            return _fetch(nodes[:half]) + _fetch(nodes[half:])
        return [_fallback(nodes[0], error)]


def _fallback(node: Node, error: Exception) -> FactorRule:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    _LOG.warning("no sharding rule for '%s' at %s, it runs replicated (%s)", node.op, node.source, reason)
    return replicated_rule(
        [len(o.type.shape) for o in node.operands], [len(r.type.shape) for r in node.results]
    )


def _logical(rule: FactorRule, node: Node) -> FactorRule:
    """Random keys are lowered with a trailing dim that the IR does not show; its factors are fixed."""
    operands = tuple(t[: o.type.rank] for t, o in zip(rule.operands, node.operands, strict=True))
    results = tuple(t[: r.type.rank] for t, r in zip(rule.results, node.results, strict=True))
    kept = (*operands, *results)
    hidden = {
        f
        for whole, cut in zip((*rule.operands, *rule.results), kept, strict=True)
        for dim in whole[len(cut) :]
        for f in dim
    }
    return FactorRule(rule.sizes, operands, results, rule.reduced - hidden, rule.fixed | hidden)


def _function(node: Node) -> tuple[Any, list[Any]]:
    def call(*operands: Any) -> list[Any]:
        return bind(node.primitive, operands, node.params)

    return call, [abstract_value(o) for o in node.operands]
