"""What can be chosen for an operation or a plain value on one mesh, with its price, shared by all equal ones.

A program of thousands of operations has a few hundred distinct ones. Their strategies, the layouts these want
and give, and their seconds are computed once.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...cost_models.mesh import LogicalMesh
from ..analysis.fusion import FusedOperation
from ..ir import Node, TensorType, Value
from ..rules import RuleBook
from ..rules.fused import fused_key, fused_rule
from .costs import strategy_costs
from .edges import EdgeTable, Layouts
from .layout import Layout, enumerate_layouts
from .strategies import Strategy, operation_strategies
from .user_strategies import user_strategies


@dataclass(frozen=True, eq=False)
class Menu:
    """The strategies of one kind of variable, and columns of them.

    Attributes:
        strategies: what can be chosen.
        operands: for each operand, the layout wanted under each strategy.
        results: for each result, its layout under each strategy.
        result_bytes: for each result, its bytes on one device under each strategy.
    """

    strategies: tuple[Strategy, ...]
    operands: tuple[Layouts, ...]
    results: tuple[Layouts, ...]
    result_bytes: tuple[NDArray[np.float64], ...]


class Narrowing(Protocol):
    """Chooses which strategies of a variable join its menu."""

    def key(self, values: tuple[Value, ...], node: Node | None) -> Hashable:
        """What the choice depends on, besides the strategies."""
        ...

    def kept(
        self, values: tuple[Value, ...], node: Node | None, strategies: tuple[Strategy, ...]
    ) -> list[Strategy]:
        """Some of the strategies, for an operation on these values or, without one, for an input."""
        ...


class MenuBook:
    """Menus of one mesh."""

    def __init__(
        self, mesh: LogicalMesh, rules: RuleBook, edges: EdgeTable, narrowing: Narrowing | None = None
    ) -> None:
        """Begins with nothing known.

        Args:
            mesh: the mesh.
            rules: factor rules of operations.
            edges: where equal lists of layouts become one.
            narrowing: leaves strategies out, if any are to be.
        """
        self._mesh = mesh
        self._rules = rules
        self._edges = edges
        self._narrowing = narrowing
        self._menus: dict[Hashable, Menu] = {}
        self._costs: dict[Hashable, NDArray[np.float64]] = {}

    def operation(self, operation: FusedOperation, shared: bool = False) -> tuple[Menu, NDArray[np.float64]]:
        """The menu of an operation, and the seconds of each strategy.

        Args:
            operation: the operation.
            shared: whether several others read its result.
        """
        values = (*operation.operands, *operation.results)
        key = (fused_key(operation), shared, self._narrowed_key(values, operation.anchor))
        menu = self._menus.get(key)
        if menu is None:
            strategies = user_strategies(operation, self._mesh)
            if strategies is None:
                rule = fused_rule(operation, self._rules.rule)
                strategies = operation_strategies(operation, rule, self._mesh.shape, shared)
            left = self._left(values, operation.anchor, strategies)
            menu = self._menus[key] = self._menu(left, [r.type for r in operation.results])
        priced = (key, tuple(r in operation.materialised for r in operation.results))
        costs = self._costs.get(priced)
        if costs is None:
            costs = self._costs[priced] = strategy_costs(operation, menu.strategies, self._mesh)
        return menu, costs

    def plain(self, type_: TensorType, leading: bool = False, padded: bool = False) -> Menu:
        """The menu of a value that no operation decides: every layout without partial sums.

        Args:
            type_: the value's type.
            leading: whether the value is a stack whose leading dim stays whole.
            padded: whether a split need not divide its dim, as inside a program.
        """
        key = ("plain", type_, leading, padded)
        if key not in self._menus:
            shape = type_.shape[1:] if leading else type_.shape
            layouts = enumerate_layouts(shape, self._mesh.shape, padded)
            chosen = [x.with_leading_dim() for x in layouts] if leading else layouts
            self._menus[key] = self._menu([Strategy((), (layout,)) for layout in chosen], [type_])
        return self._menus[key]

    def argument(self, value: Value) -> Menu:
        """The menu of a program's input."""
        key = ("argument", value.type, self._narrowed_key((value,), None))
        if key not in self._menus:
            whole = self.plain(value.type)
            left = self._left((value,), None, whole.strategies)
            self._menus[key] = whole if len(left) == len(whole.strategies) else self._menu(left, [value.type])
        return self._menus[key]

    def _narrowed_key(self, values: tuple[Value, ...], node: Node | None) -> Hashable:
        return self._narrowing and self._narrowing.key(values, node)

    def _left(
        self, values: tuple[Value, ...], node: Node | None, strategies: tuple[Strategy, ...]
    ) -> tuple[Strategy, ...] | list[Strategy]:
        return self._narrowing.kept(values, node, strategies) if self._narrowing else strategies

    def only(self, type_: TensorType, layout: Layout) -> Menu:
        """The menu of a value whose layout is given."""
        return self._menu([Strategy((), (layout,))], [type_])

    def _menu(self, strategies: tuple[Strategy, ...] | list[Strategy], types: list[TensorType]) -> Menu:
        operands = range(len(strategies[0].operands))
        results = tuple(self._edges.intern([s.results[i] for s in strategies]) for i in range(len(types)))
        return Menu(
            tuple(strategies),
            tuple(self._edges.intern([s.operands[i] for s in strategies]) for i in operands),
            results,
            tuple(self.local_bytes(t, layouts) for t, layouts in zip(types, results, strict=True)),
        )

    def local_bytes(self, type_: TensorType, layouts: Layouts) -> NDArray[np.float64]:
        """Bytes on one device under each layout."""
        return np.array([layout.local_bytes(type_, self._mesh.shape) for layout in layouts])
