"""Memory rows: what each strategy weighs at one live point, as a share of the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from .problem import Array, Problem

Pair = tuple[int, int]
K = TypeVar("K")


@dataclass(frozen=True, eq=False)
class Row:
    """Memory at one live point, divided by `unit_bytes`.

    Attributes:
        point: The live point, or -1 for the mean of all.
        node: Weight of each strategy of each node live there, shapes [k].
        pair: Weight of each edge live there, shapes [k_i, k_j], by its nodes (i, j).
        capacity: What the choices may weigh together: (budget - fixed) / unit.
    """

    point: int
    node: dict[int, Array]
    pair: dict[Pair, Array]
    capacity: float


def row_at(problem: Problem, point: int, budget_bytes: float, unit_bytes: float) -> Row:
    """Collect the memory terms live at one point.

    Args:
        problem: Whose memory terms to collect.
        point: The live point.
        budget_bytes: Right-hand side before the fixed bytes are taken off.
        unit_bytes: Divides every weight, so that rows are of order one.
    """
    node: dict[int, Array] = {}
    for usage in problem.usages:
        if usage.start <= point < usage.end and usage.bytes.any():
            _add(node, usage.node, usage.bytes / unit_bytes)
    pair: dict[Pair, Array] = {}
    for usage in problem.edge_usages:
        if usage.start <= point < usage.end and usage.bytes.any():
            edge = problem.edges[usage.edge]
            _add(pair, (edge.i, edge.j), usage.bytes / unit_bytes)
    fixed = 0.0 if problem.fixed_bytes is None else float(problem.fixed_bytes[point])
    return Row(point, node, pair, (budget_bytes - fixed) / unit_bytes)


def mean_row(problem: Problem, unit_bytes: float) -> Row:
    """Collect all memory terms, each with the share of points where it is live, as a row without budget."""
    node: dict[int, Array] = {}
    for usage in problem.usages:
        _add(node, usage.node, usage.bytes * ((usage.end - usage.start) / problem.num_points / unit_bytes))
    pair: dict[Pair, Array] = {}
    for usage in problem.edge_usages:
        edge = problem.edges[usage.edge]
        share = (usage.end - usage.start) / problem.num_points / unit_bytes
        _add(pair, (edge.i, edge.j), usage.bytes * share)
    fixed = 0.0 if problem.fixed_bytes is None else float(problem.fixed_bytes.mean())
    return Row(-1, node, pair, -fixed / unit_bytes)


def tables_of(problem: Problem) -> dict[Pair, Array]:
    """Return the pair costs of a problem without parallel edges, by (i, j)."""
    return {(e.i, e.j): e.cost for e in problem.edges}


def priced(
    costs: Sequence[Array], pairs: dict[Pair, Array], rows: Sequence[Row], prices: Array
) -> tuple[list[Array], dict[Pair, Array]]:
    """Return node and pair costs with memory charged at `prices`: seconds per unit of a row, shape [rows]."""
    unary, pair = list(costs), dict(pairs)
    for row, price in zip(rows, prices, strict=True):
        if price > 0:
            for i, weight in row.node.items():
                unary[i] = unary[i] + price * weight
            for key, weight in row.pair.items():
                pair[key] = pair[key] + price * weight
    return unary, pair


def worst_points(memory: Array, budget_bytes: float, count: int, reach: float = 0.0) -> list[int]:
    """Return up to `count` local peaks of a memory profile above the budget, worst first.

    With `reach`, peaks within that share below the budget count too: they are likely to be overrun next.
    """
    over = memory - (budget_bytes - reach * abs(budget_bytes))
    left = np.concatenate([[-np.inf], over[:-1]])
    right = np.concatenate([over[1:], [-np.inf]])
    peaks = np.flatnonzero((over > 0) & (over > left) & (over >= right))
    return [int(t) for t in peaks[np.argsort(-over[peaks], kind="stable")][:count]]


def _add(weights: dict[K, Array], key: K, weight: Array) -> None:
    weights[key] = weights[key] + weight if key in weights else weight
