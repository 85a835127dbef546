"""The integer program over the local polytope.

    minimise    sum_i c_i . s_i + sum_ij E_ij . e_ij
    subject to  sum_p s_i[p] = 1,   sum_q e_ij[p, q] = s_i[p],   sum_p e_ij[p, q] = s_j[q],
                sum_i w_i . s_i + sum_ij w_ij . e_ij <= capacity        (each active memory row)
                s binary, e >= 0 continuous (integral once s is).

This form's relaxation is the tightest of the usual ones; it is exact on trees. In the least-budget problem
the objective is the overrun variable of the rows instead. Costs are divided by a reference cost, memory by
the budget.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .backend import Limits, LinearModel, LinearResult, run
from .elimination import Core
from .problem import Array, Choice
from .rows import Row

Index = NDArray[np.int64]
TARGET_SCALE = 1e3  # the solver's absolute tolerances (1e-6, 1e-7) then are far below the gap asked for


@dataclass(frozen=True, eq=False)
class CoreResult:
    """A solved core.

    Attributes:
        choice: Strategy of each node (removed nodes 0), or None where none was found.
        bound: No choice under these rows costs less, in seconds (or row units for the least overrun).
        weights: Relaxed s of each core node, shapes [k] (empty without a solution).
        prices: Duals of the memory rows, seconds per unit, at least 0 (zeros for integer models), shape
            [rows].
        iterations: Simplex iterations.
        nodes: Search nodes.
    """

    choice: Choice | None
    bound: float
    weights: list[Array]
    prices: Array
    iterations: int
    nodes: int


def solve_core(
    core: Core,
    rows: list[Row],
    limits: Limits,
    reference: float,
    relaxed: bool = False,
    elastic: bool = False,
) -> CoreResult:
    """Solve the integer program of a core.

    Args:
        core: Nodes and pairs left.
        rows: Active memory rows, naming only nodes and pairs of the core.
        limits: When to stop; `target` is in seconds.
        reference: A cost of the order of the optimum, in seconds.
        relaxed: Solve the linear relaxation.
        elastic: Minimise the largest excess over the rows' capacities instead of the cost.
    """
    layout = _Layout.of(core)
    scale = TARGET_SCALE / max(abs(reference), 1e-30)
    model = _model(core, layout, rows, scale, relaxed, elastic)
    if limits.target is not None:
        target = (limits.target - core.constant) * scale
        limits = replace(limits, target=target)
    result = run(model, limits)
    return _result(core, layout, result, scale, len(rows), elastic)


@dataclass(frozen=True, eq=False)
class _Layout:
    """Where each node's s and each pair's e columns start; only finite e entries have a column."""

    node: dict[int, int]
    columns: int
    pair_cells: list[tuple[tuple[int, int], Index, Index, int]]

    @staticmethod
    def of(core: Core) -> _Layout:
        node, at = {}, 0
        for i in core.nodes:
            node[i] = at
            at += len(core.unary[i])
        cells = []
        for ij, table in core.pairs.items():
            p, q = np.nonzero(np.isfinite(table))
            cells.append((ij, p, q, at))
            at += len(p)
        return _Layout(node, at, cells)


def _model(
    core: Core, layout: _Layout, rows: list[Row], scale: float, relaxed: bool, elastic: bool
) -> LinearModel:
    n = layout.columns + elastic
    objective, upper, lower = np.zeros(n), np.ones(n), np.zeros(n)
    integer = np.zeros(n, bool)
    entries = _Entries()
    for i, start in layout.node.items():
        cost = core.unary[i]
        stop = start + len(cost)
        upper[start:stop] = np.isfinite(cost)
        objective[start:stop] = np.where(np.isfinite(cost), cost, 0.0) * scale
        integer[start:stop] = not relaxed
        entries.add_row(np.arange(start, stop), np.ones(stop - start), 1.0, 1.0)
    for (i, j), p, q, start in layout.pair_cells:
        objective[start : start + len(p)] = core.pairs[i, j][p, q] * scale
        entries.add_marginals(p, len(core.unary[i]), start, layout.node[i])
        entries.add_marginals(q, len(core.unary[j]), start, layout.node[j])
    for row in rows:
        column, weight = _row_cells(layout, row)
        if elastic:
            column, weight = np.append(column, n - 1), np.append(weight, -1.0)
        entries.add_row(column, weight, -np.inf, row.capacity)
    if elastic:
        objective[:] = 0.0
        objective[-1], lower[-1], upper[-1] = 1.0, -np.inf, np.inf
    return entries.model(objective, lower, upper, integer)


def _row_cells(layout: _Layout, row: Row) -> tuple[Index, Array]:
    columns = [layout.node[i] + np.arange(len(w)) for i, w in row.node.items()]
    weights = list(row.node.values())
    if row.pair:
        for key, p, q, start in layout.pair_cells:
            if key in row.pair:
                columns.append(start + np.arange(len(p)))
                weights.append(row.pair[key][p, q])
    if not columns:
        return np.zeros(0, np.int64), np.zeros(0)
    return np.concatenate(columns), np.concatenate(weights)


class _Entries:
    """Grows the constraint matrix block by block."""

    def __init__(self) -> None:
        self.row: list[Index] = []
        self.column: list[Index] = []
        self.value: list[Array] = []
        self.low: list[Array] = []
        self.high: list[Array] = []
        self.count = 0

    def add_row(self, column: Index, value: Array, low: float, high: float) -> None:
        self._add(np.full(len(column), self.count), column, value)
        self._close(1, low, high)

    def add_marginals(self, side: Index, size: int, pair_start: int, node_start: int) -> None:
        """Rows sum of e over the other side - s = 0, one for each strategy of this side."""
        self._add(self.count + side, pair_start + np.arange(len(side)), np.ones(len(side)))
        self._add(self.count + np.arange(size), node_start + np.arange(size), -np.ones(size))
        self._close(size, 0.0, 0.0)

    def model(self, objective: Array, lower: Array, upper: Array, integer: NDArray[np.bool_]) -> LinearModel:
        matrix = (np.concatenate(self.row), np.concatenate(self.column), np.concatenate(self.value))
        sides = (np.concatenate(self.low), np.concatenate(self.high))
        return LinearModel(objective, lower, upper, integer, *matrix, *sides)

    def _add(self, row: Index, column: Index, value: Array) -> None:
        self.row.append(row)
        self.column.append(column)
        self.value.append(value)

    def _close(self, rows: int, low: float, high: float) -> None:
        self.low.append(np.full(rows, low))
        self.high.append(np.full(rows, high))
        self.count += rows


def _result(
    core: Core, layout: _Layout, result: LinearResult, scale: float, num_rows: int, elastic: bool
) -> CoreResult:
    bound = result.bound if elastic else result.bound / scale + core.constant
    prices = np.maximum(-result.duals[len(result.duals) - num_rows :], 0.0) / scale
    if result.values is None:
        return CoreResult(None, bound, [], np.zeros(num_rows), result.iterations, result.nodes)
    choice = np.zeros(len(core.unary), np.int64)
    weights = []
    for i, start in layout.node.items():
        share = result.values[start : start + len(core.unary[i])]
        weights.append(share)
        choice[i] = int(share.argmax())
    return CoreResult(choice, bound, weights, prices, result.iterations, result.nodes)
