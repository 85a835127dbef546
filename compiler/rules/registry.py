"""Finds the factor rule of any node: declared, hand-written, Shardy's, or the replicated fallback."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from ..errors import ArgumentError
from ..ir import Literal, Node
from ..ir.printer import format_params
from ..jax_compat import abstract_value, bind
from .declaration import Declaration
from .declared import OPAQUE, call_name, declaration_of
from .factor import FactorRule, replicated_rule
from .local_call import possible_rule
from .manual import MANUAL_RULES
from .restrictions import restricted
from .shardy import shardy_rules

_LOG = logging.getLogger("meshwright")


class RuleBook:
    """Factor rules by operation, parameters and types; equal operations share one rule.

    Shardy's rules are fetched for many nodes at once, because a compiler call costs far more than an
    operation in it.
    """

    def __init__(self) -> None:
        self._rules: dict[Hashable, FactorRule] = {}
        self._reported: set[tuple[str, str, str]] = set()

    def prepare(self, nodes: Iterable[Node]) -> None:
        """Fetches the rules of all nodes that ``rule`` will be asked for.

        What runs replicated for want of a rule is reported, once for each name and source line.
        """
        missing: dict[Hashable, Node] = {}
        for node in nodes:
            key = rule_key(node)
            # An equal opaque call may have a rule already and this line no report.
            if key in missing or (key in self._rules and node.op not in OPAQUE):
                continue
            rule = self._known(node)
            if rule is None:
                missing[key] = node
            else:
                self._rules[key] = rule
        self._rules.update(zip(missing, self._fetch(list(missing.values())), strict=True))

    def rule(self, node: Node) -> FactorRule:
        """The rule of a node.

        Args:
            node: an operation without regions.
        """
        key = rule_key(node)
        if key not in self._rules:
            self.prepare([node])
        return self._rules[key]

    def _known(self, node: Node) -> FactorRule | None:
        """The rule that needs no compiler: declared, hand-written, or that of a call nobody can see into."""
        declaration = declaration_of(node)
        if declaration is not None:
            try:
                return possible_rule(node, declaration.apply(node))
            except ArgumentError as error:
                self._warn(node, _misfit(node, declaration, error))
        if node.op in MANUAL_RULES:
            return MANUAL_RULES[node.op](node)
        if node.op not in OPAQUE:
            return None
        if declaration is None:
            self._warn(node, _opaque(node))
        return _replicated(node)

    def _fetch(self, nodes: Sequence[Node]) -> list[FactorRule]:
        """Shardy's rules; where one node cannot be lowered, the others must not suffer."""
        if not nodes:
            return []
        try:
            rules = shardy_rules([_function(node) for node in nodes])
            return [restricted(node, _logical(rule, node)) for rule, node in zip(rules, nodes, strict=True)]
        except Exception as error:
            if len(nodes) > 1:
                half = len(nodes) // 2
                return self._fetch(nodes[:half]) + self._fetch(nodes[half:])
            self._warn(nodes[0], _unknown(nodes[0], error))
            return [_replicated(nodes[0])]

    def _warn(self, node: Node, text: str) -> None:
        seen = (call_name(node) or node.op, str(node.source), str(declaration_of(node)))
        if seen not in self._reported:
            self._reported.add(seen)
            _LOG.warning("%s", text)


def rule_key(node: Node) -> Hashable:
    """What a node's rule depends on."""
    types = tuple((isinstance(o, Literal), o.type) for o in node.operands)
    declared = declaration_of(node)
    return (node.op, format_params(node.params), types, tuple(r.type for r in node.results), declared)


def _opaque(node: Node) -> str:
    """What running an opaque call whole costs, and what to do about it."""
    # Late: display stands above the rules and is wanted for a message only.
    from ..display.units import format_bytes

    size = format_bytes(sum(o.type.bytes for o in node.operands))
    target = f"{call_name(node)!r}" if call_name(node) else f"{node.op!r}"
    return (
        f"{_described(node)} at {node.source} runs whole on every device: its operands, {size}, are gathered "
        f"to each. If it may be split, say how: mw.register_rule({target}, 'b s, ... -> b s')"
    )


def _misfit(node: Node, declaration: Declaration, error: ArgumentError) -> str:
    sides = [", ".join(str(v.type) for v in side) for side in (node.operands, node.results)]
    return (
        f"the rule declared for {_described(node)}, {declaration}, does not fit the call at {node.source}, "
        f"({sides[0]}) -> ({sides[1]}), and is not used: {error}"
    )


def _unknown(node: Node, error: Exception) -> str:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"no sharding rule for '{node.op}' at {node.source}, it runs replicated ({reason})"


def _described(node: Node) -> str:
    return f"{node.op} {call_name(node)!r}" if call_name(node) else node.op


def _replicated(node: Node) -> FactorRule:
    return replicated_rule([o.type.rank for o in node.operands], [r.type.rank for r in node.results])


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
