"""Leaves out of a model's menus what a template does, so that the model is built without it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ...ir import Node, Program, Value
from ..strategies import Strategy
from .placement import Placement
from .roles import Roles
from .wants import Kind, kept_of, kind_of, ranks_of, wants_of


class TemplateNarrowing:
    """The part of a restriction that needs no model; see ``menu.Narrowing``."""

    def __init__(self, program: Program, roles: Roles, placement: Placement) -> None:
        """Takes the template and what it is about."""
        self._roles = roles
        self._placement = placement
        inputs = program.graph.inputs
        self._stored = {inputs[i]: Kind.PARAMETER for i in roles.parameters}
        self._stored |= {inputs[i]: Kind.OPTIMIZER for i in roles.optimizer}

    def key(self, values: Sequence[Value], node: Node | None) -> Hashable:
        """What the answer of ``kept`` depends on, besides the strategies."""
        return self._kind(values, node), tuple(map(self._roles.of_dims, values))

    def kept(
        self, values: Sequence[Value], node: Node | None, strategies: Sequence[Strategy]
    ) -> list[Strategy]:
        """The strategies that the template leaves.

        Args:
            values: what is decided: operands and results of an operation, or one input.
            node: the operation.
            strategies: all, with a layout of each operand and result.
        """
        layouts = zip(*((*s.operands, *s.results) for s in strategies), strict=True)
        subject = list(zip(map(self._roles.of_dims, values), layouts, strict=True))
        wants = wants_of(self._placement, self._kind(values, node), subject)
        count = len(strategies)
        found = kept_of(count, wants, subject, lambda s, axis, want: ranks_of(s[1], s[0], axis, want))
        return [strategies[k] for k in found]

    def _kind(self, values: Sequence[Value], node: Node | None) -> Kind:
        if node is None:
            return self._stored.get(values[0], Kind.OTHER)
        return kind_of(node, self._roles)
