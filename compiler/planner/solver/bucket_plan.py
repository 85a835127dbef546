"""The layout of a bucket elimination: which table is built when, from what, and where its minimum goes.

It depends on the graph and the numbers of strategies only, so it is made once and run with many costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .ordering import elimination_order

# numpy's arrays have at most 64.
_MOST_AXES = 60


@dataclass(frozen=True, eq=False)
class Bucket:
    """One table to build: the sum of `factors`, over `scope`, minimised over `scope[0]`.

    Attributes:
        scope: The eliminated node, then the others in elimination order.
        shape: Strategies along each axis.
        factors: Numbers of the summed factors: unary costs, pair costs, then messages.
        views: The shape of each factor when broadcast to `shape`.
        sends_to: The bucket that takes the message, or -1 where the message is a scalar.
    """

    scope: tuple[int, ...]
    shape: tuple[int, ...]
    factors: tuple[int, ...]
    views: tuple[tuple[int, ...], ...]
    sends_to: int


@dataclass(frozen=True, eq=False)
class BucketPlan:
    """The elimination of one graph, reusable for any costs on it.

    Attributes:
        sizes: Strategies of each node.
        pairs: Adjacent nodes (i, j), one entry per pair table.
        position: Place of each node in the elimination order.
        buckets: Tables in the order they are built.
        is_exact: True where no bucket was split, so the value is the minimum and not just a bound.
    """

    sizes: NDArray[np.int64]
    pairs: tuple[tuple[int, int], ...]
    position: tuple[int, ...]
    buckets: tuple[Bucket, ...]
    is_exact: bool

    @property
    def entries(self) -> int:
        """Entries of all tables together."""
        return sum(math.prod(b.shape) for b in self.buckets)


def plan_buckets(
    sizes: NDArray[np.int64],
    pairs: Sequence[tuple[int, int]],
    table_limit: int = 4_000_000,
    total_limit: int = 60_000_000,
) -> BucketPlan:
    """Choose an order and lay out the tables.

    Args:
        sizes: Strategies of each node.
        pairs: Adjacent nodes, one entry per pair table; no pair twice.
        table_limit: Most entries of one table.
        total_limit: Most entries of all tables, which bounds the time of a run (about 5 ns an entry);
            smaller tables are tried until they fit.
    """
    while True:
        order = elimination_order([int(k) for k in sizes], pairs, table_limit)
        plan = _lay_out(sizes, tuple(pairs), order, table_limit)
        if plan.entries <= total_limit or table_limit <= int(sizes.max(initial=1)) ** 2:
            return plan
        table_limit //= 4


def plan_whole(
    sizes: NDArray[np.int64], pairs: Sequence[tuple[int, int]], table_limit: int, total_limit: int
) -> BucketPlan | None:
    """Lay out the elimination with no table split, or return None where that passes a limit.

    Args:
        sizes: Strategies of each node.
        pairs: Adjacent nodes, one entry per pair table; no pair twice.
        table_limit: Most entries of one table.
        total_limit: Most entries of all tables.
    """
    order = elimination_order([int(k) for k in sizes], pairs, table_limit, whole=True)
    if len(order) < len(sizes):
        return None
    plan = _lay_out(sizes, tuple(pairs), order, table_limit)
    return plan if plan.is_exact and plan.entries <= total_limit else None


def _lay_out(
    sizes: NDArray[np.int64], pairs: tuple[tuple[int, int], ...], order: list[int], table_limit: int
) -> BucketPlan:
    """Place each factor in the bucket of its first node, splitting buckets that pass the limit."""
    position = np.empty(len(sizes), np.int64)
    position[order] = np.arange(len(order))
    waiting: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in sizes]
    for number, (i, j) in enumerate(pairs):
        ends = (i, j) if position[i] < position[j] else (j, i)
        # A node without a choice needs no axis: its pair tables are unary costs of the other end.
        scope = tuple(u for u in ends if sizes[u] > 1) or ends[:1]
        waiting[scope[0]].append((len(sizes) + number, scope))
    next_factor, buckets, is_exact = len(sizes) + len(pairs), [], True
    for v in order:
        groups = _groups([(v, (v,)), *waiting[v]], sizes, table_limit)
        is_exact &= len(groups) == 1
        for group in groups:
            scope = tuple(sorted({u for _, s in group for u in s}, key=position.__getitem__))
            buckets.append(_bucket(scope, group, sizes))
            if len(scope) > 1:
                waiting[scope[1]].append((next_factor, scope[1:]))
            next_factor += 1
    return BucketPlan(
        sizes, pairs, tuple(position.tolist()), _linked(buckets, len(sizes) + len(pairs)), is_exact
    )


def _groups(
    factors: list[tuple[int, tuple[int, ...]]], sizes: NDArray[np.int64], table_limit: int
) -> list[list[tuple[int, tuple[int, ...]]]]:
    """Partition factors so that each part's joint table fits the limit: largest first, first fit."""
    if _fits({u for _, s in factors for u in s}, sizes, table_limit):
        return [factors]
    groups: list[tuple[set[int], list[tuple[int, tuple[int, ...]]]]] = []
    for factor in sorted(factors, key=lambda f: (-len(f[1]), f[0])):
        for nodes, members in groups:
            if _fits(nodes.union(factor[1]), sizes, table_limit):
                nodes.update(factor[1])
                members.append(factor)
                break
        else:
            groups.append((set(factor[1]), [factor]))
    return [members for _, members in groups]


def _fits(nodes: set[int], sizes: NDArray[np.int64], table_limit: int) -> bool:
    return len(nodes) <= _MOST_AXES and math.prod(int(sizes[u]) for u in nodes) <= table_limit


def _bucket(
    scope: tuple[int, ...], group: list[tuple[int, tuple[int, ...]]], sizes: NDArray[np.int64]
) -> Bucket:
    axis = {u: a for a, u in enumerate(scope)}
    views = []
    for _, nodes in group:
        view = [1] * len(scope)
        for u in nodes:
            view[axis[u]] = int(sizes[u])
        views.append(tuple(view))
    shape = tuple(int(sizes[u]) for u in scope)
    return Bucket(scope, shape, tuple(f for f, _ in group), tuple(views), -1)


def _linked(buckets: list[Bucket], first_message: int) -> tuple[Bucket, ...]:
    """Note on each bucket where its message goes."""
    target = {f: b for b, bucket in enumerate(buckets) for f in bucket.factors}
    return tuple(
        Bucket(b.scope, b.shape, b.factors, b.views, target.get(first_message + n, -1))
        for n, b in enumerate(buckets)
    )
