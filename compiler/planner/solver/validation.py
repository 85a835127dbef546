"""Checks that a planning problem is well formed; every fault is collected before anything is raised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .problem import Problem


def problems_of(problem: Problem) -> list[str]:
    """Return one line for each fault of a problem (empty where it is well formed)."""
    return [*_nodes(problem), *_edges(problem), *_usages(problem), *_points(problem)]


def _nodes(problem: Problem) -> Iterator[str]:
    if len(problem.names) != len(problem.costs):
        yield f"{len(problem.names)} names for {len(problem.costs)} nodes"
    for i, cost in enumerate(problem.costs):
        if cost.ndim != 1 or not len(cost):
            yield f"node {i}: costs have shape {cost.shape}, not [strategies]"
        elif not _is_cost(cost):
            yield f"node {i}: a cost is NaN or minus infinity"


def _edges(problem: Problem) -> Iterator[str]:
    n = problem.num_nodes
    for number, edge in enumerate(problem.edges):
        if not (0 <= edge.i < n and 0 <= edge.j < n) or edge.i == edge.j:
            yield f"edge {number}: nodes {edge.i}, {edge.j} of {n}"
        elif edge.cost.shape != (len(problem.costs[edge.i]), len(problem.costs[edge.j])):
            yield f"edge {number}: shape {edge.cost.shape} does not match its nodes"
        elif not _is_cost(edge.cost):
            yield f"edge {number}: a cost is NaN or minus infinity"


def _usages(problem: Problem) -> Iterator[str]:
    for number, usage in enumerate(problem.usages):
        if not 0 <= usage.node < problem.num_nodes:
            yield f"usage {number}: node {usage.node} of {problem.num_nodes}"
        elif usage.bytes.shape != problem.costs[usage.node].shape:
            yield f"usage {number}: shape {usage.bytes.shape} does not match its node"
        yield from _interval(problem, f"usage {number}", usage.start, usage.end, usage.bytes)
    for number, usage in enumerate(problem.edge_usages):
        if not 0 <= usage.edge < len(problem.edges):
            yield f"edge usage {number}: edge {usage.edge} of {len(problem.edges)}"
        elif usage.bytes.shape != problem.edges[usage.edge].cost.shape:
            yield f"edge usage {number}: shape {usage.bytes.shape} does not match its edge"
        yield from _interval(problem, f"edge usage {number}", usage.start, usage.end, usage.bytes)


def _points(problem: Problem) -> Iterator[str]:
    fixed = problem.fixed_bytes
    if fixed is not None and fixed.shape != (problem.num_points,):
        yield f"fixed bytes have shape {fixed.shape} for {problem.num_points} points"
    elif fixed is not None and not np.isfinite(fixed).all():
        yield "fixed bytes are not finite"
    if problem.budget_bytes is not None and np.isnan(problem.budget_bytes):
        yield "the budget is NaN"


def _interval(problem: Problem, label: str, start: int, end: int, bytes_: np.ndarray) -> Iterator[str]:
    if not 0 <= start <= end <= problem.num_points:
        yield f"{label}: live points {start} to {end} of {problem.num_points}"
    if not np.isfinite(bytes_).all():
        yield f"{label}: bytes are not finite"


def _is_cost(values: np.ndarray) -> bool:
    return bool((values > -np.inf).all())  # also False for NaN
