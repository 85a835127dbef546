"""Min-plus bucket elimination: the least cost over all choices, without memory rows.

Nodes are eliminated in turn. The bucket of v holds every table that names v; their sum T(v, N) is minimised over v to
the message m(N) = min_v T(v, N), which goes to the bucket of the first of N to be eliminated. With no bucket split,
the value is the minimum and reading the tables backwards gives a choice that attains it.

A bucket whose table would pass the limit is split into mini-buckets (Dechter and Rish, "Mini-buckets", JACM 2003):
each part is minimised over its own copy of v, so the value becomes a lower bound. Before a split the copies' costs of v
are shifted to agree on average ("moment matching", Ihler et al., UAI 2012), which tightens the bound and keeps it valid,
because the shifts add to zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .ordering import elimination_order
from .problem import Array, Choice


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
    sizes: NDArray[np.int64], pairs: Sequence[tuple[int, int]], table_limit: int = 4_000_000, total_limit: int = 60_000_000
) -> BucketPlan:
    """Choose an order and lay out the tables.

    Args:
        sizes: Strategies of each node.
        pairs: Adjacent nodes, one entry per pair table; no pair twice.
        table_limit: Most entries of one table.
        total_limit: Most entries of all tables; smaller tables are tried until they fit.
    """
    while True:
        order = elimination_order([int(k) for k in sizes], pairs, table_limit)
        plan = _lay_out(sizes, tuple(pairs), order, table_limit)
        if plan.entries <= total_limit or table_limit <= int(sizes.max(initial=1)) ** 2:
            return plan
        table_limit //= 4


def _lay_out(
    sizes: NDArray[np.int64], pairs: tuple[tuple[int, int], ...], order: list[int], table_limit: int
) -> BucketPlan:
    """Place each factor in the bucket of its first node, splitting buckets that pass the limit."""
    position = np.empty(len(sizes), np.int64)
    position[order] = np.arange(len(order))
    waiting: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in sizes]
    for number, (i, j) in enumerate(pairs):
        scope = (i, j) if position[i] < position[j] else (j, i)
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
    return BucketPlan(sizes, pairs, tuple(position.tolist()), _linked(buckets, len(sizes) + len(pairs)), is_exact)


def _groups(
    factors: list[tuple[int, tuple[int, ...]]], sizes: NDArray[np.int64], table_limit: int
) -> list[list[tuple[int, tuple[int, ...]]]]:
    """Partition factors so that each part's joint table fits the limit: largest first, first fit."""
    joint = {u for _, s in factors for u in s}
    if math.prod(int(sizes[u]) for u in joint) <= table_limit:
        return [factors]
    groups: list[tuple[set[int], list[tuple[int, tuple[int, ...]]]]] = []
    for factor in sorted(factors, key=lambda f: (-len(f[1]), f[0])):
        for nodes, members in groups:
            if math.prod(int(sizes[u]) for u in nodes.union(factor[1])) <= table_limit:
                nodes.update(factor[1])
                members.append(factor)
                break
        else:
            groups.append((set(factor[1]), [factor]))
    return [members for _, members in groups]


def _bucket(scope: tuple[int, ...], group: list[tuple[int, tuple[int, ...]]], sizes: NDArray[np.int64]) -> Bucket:
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
        Bucket(b.scope, b.shape, b.factors, b.views, target.get(first_message + n, -1)) for n, b in enumerate(buckets)
    )


@dataclass(frozen=True, eq=False)
class Elimination:
    """The tables of one run.

    Attributes:
        plan: What was run.
        value: The minimum (exact plan) or a lower bound on it, in the units of the costs.
        tables: T of each bucket.
        messages: m of each bucket.
    """

    plan: BucketPlan
    value: float
    tables: list[Array]
    messages: list[Array]

    def choice(self) -> Choice:
        """Return a choice read backwards from the tables: a minimiser where the plan is exact."""
        x = np.zeros(len(self.plan.sizes), np.int64)
        pending: Array | None = None
        for number in range(len(self.tables) - 1, -1, -1):
            bucket = self.plan.buckets[number]
            column = self.tables[number][(slice(None), *x[list(bucket.scope[1:])])]
            pending = column if pending is None else pending + column
            if number == 0 or self.plan.buckets[number - 1].scope[0] != bucket.scope[0]:
                x[bucket.scope[0]] = int(pending.argmin())
                pending = None
        return x


def eliminate(plan: BucketPlan, unary: Sequence[Array], pair: Sequence[Array]) -> Elimination:
    """Run a plan on given costs.

    Args:
        plan: Made for this graph.
        unary: Cost of each strategy of each node, shapes [k].
        pair: Cost tables in the order of `plan.pairs`, shapes [k_i, k_j].
    """
    factors: list[Array] = [*unary, *(_oriented(plan, ij, e) for ij, e in zip(plan.pairs, pair, strict=True))]
    tables: list[Array] = []
    messages: list[Array] = []
    value, number, buckets = 0.0, 0, plan.buckets
    while number < len(buckets):
        stop = number + 1
        while stop < len(buckets) and buckets[stop].scope[0] == buckets[number].scope[0]:
            stop += 1
        group = [_table(b, factors) for b in buckets[number:stop]]
        for bucket, table in zip(buckets[number:stop], _matched(group), strict=True):
            message = table.min(axis=0)
            tables.append(table)
            messages.append(message)
            factors.append(message)
            value += float(message) if bucket.sends_to < 0 else 0.0
        number = stop
    return Elimination(plan, value, tables, messages)


def _oriented(plan: BucketPlan, ij: tuple[int, int], table: Array) -> Array:
    return table if plan.position[ij[0]] < plan.position[ij[1]] else table.T


def _table(bucket: Bucket, factors: list[Array]) -> Array:
    """Sum a bucket's factors, smallest first."""
    views = [factors[f].reshape(v) for f, v in zip(bucket.factors, bucket.views, strict=True)]
    views.sort(key=lambda a: a.size)
    total = views[0]
    for view in views[1:]:
        total = total + view
    return total if total.shape == bucket.shape else np.broadcast_to(total, bucket.shape)


def _matched(group: list[Array]) -> list[Array]:
    """Shift the copies of a split node so that their best costs agree; the shifts add to zero."""
    if len(group) == 1:
        return group
    best = np.array([t.reshape(len(t), -1).min(axis=1) for t in group])
    finite = np.isfinite(best).all(axis=0)
    best[:, ~finite] = 0.0
    shift = best.mean(axis=0) - best
    return [t + s.reshape(-1, *[1] * (t.ndim - 1)) for t, s in zip(group, shift, strict=True)]
