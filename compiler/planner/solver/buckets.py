"""Min-plus bucket elimination: the least cost over all choices, without memory rows.

Nodes are eliminated in turn. The bucket of v holds every table that names v; their sum T(v, N) is minimised
over v to the message m(N) = min_v T(v, N), which goes to the bucket of the first of N to be eliminated.
With no bucket split, the value is the minimum and reading the tables backwards gives a choice that attains
it.

A bucket whose table would pass the limit is split into mini-buckets (Dechter and Rish, "Mini-buckets", JACM
2003): each part is minimised over its own copy of v, so the value becomes a lower bound. Before a split the
copies' costs of v are shifted to agree on average ("moment matching", Ihler et al., UAI 2012), which
tightens the bound and keeps it valid, because the shifts add to zero. `diffusion.py` does far more for it.

Only messages are kept. Tables are built again from them where they are needed once more, so memory stays a
small share of the entries computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .bucket_plan import Bucket, BucketPlan
from .problem import Array, Choice


@dataclass(frozen=True, eq=False)
class Elimination:
    """One run.

    Attributes:
        plan: What was run.
        value: The minimum (exact plan) or a lower bound on it, in the units of the costs.
        factors: Unary costs, oriented pair costs and messages, numbered as in `Bucket.factors`.
        shifts: What each part of a split bucket adds to the costs of its node, by bucket number.
    """

    plan: BucketPlan
    value: float
    factors: list[Array]
    shifts: dict[int, Array]

    def message(self, number: int) -> Array:
        """Return m(N) of a bucket."""
        return self.factors[len(self.factors) - len(self.plan.buckets) + number]

    def table(self, number: int) -> Array:
        """Return T(v, N) of a bucket, built anew."""
        table = _table(self.plan.buckets[number], self.factors)
        shift = self.shifts.get(number)
        return table if shift is None else table + shift.reshape(-1, *[1] * (table.ndim - 1))

    def choice(self) -> Choice:
        """Return a choice read backwards from the tables: a minimiser where the plan is exact."""
        x = np.zeros(len(self.plan.sizes), np.int64)
        pending: Array | None = None
        for number in range(len(self.plan.buckets) - 1, -1, -1):
            column = self._column(number, x)
            pending = column if pending is None else pending + column
            v = self.plan.buckets[number].scope[0]
            if number == 0 or self.plan.buckets[number - 1].scope[0] != v:
                x[v] = int(pending.argmin())
                pending = None
        return x

    def _column(self, number: int, x: Choice) -> Array:
        """T(., N) at the choice of N, shape [k]."""
        bucket = self.plan.buckets[number]
        total = self.shifts.get(number, 0.0)
        at = x[list(bucket.scope)]
        for factor, view in zip(bucket.factors, bucket.views, strict=True):
            # Index only the axes a factor has; v itself, axis 0, stays whole.
            index = tuple(slice(None) if a == 0 else at[a] for a, k in enumerate(view) if k > 1)
            total = total + self.factors[factor].reshape([k for k in view if k > 1])[index]
        return np.broadcast_to(total, bucket.shape[:1])


def eliminate(plan: BucketPlan, unary: Sequence[Array], pair: Sequence[Array]) -> Elimination:
    """Run a plan on given costs.

    Args:
        plan: Made for this graph.
        unary: Cost of each strategy of each node, shapes [k].
        pair: Cost tables in the order of `plan.pairs`, shapes [k_i, k_j].
    """
    factors: list[Array] = [*unary, *(_oriented(plan, ij, e) for ij, e in zip(plan.pairs, pair, strict=True))]
    shifts: dict[int, Array] = {}
    value, number, buckets = 0.0, 0, plan.buckets
    while number < len(buckets):
        stop = number + 1
        while stop < len(buckets) and buckets[stop].scope[0] == buckets[number].scope[0]:
            stop += 1
        group = [_table(b, factors) for b in buckets[number:stop]]
        if len(group) > 1:
            shifts.update(zip(range(number, stop), _shifts(group), strict=True))
        for n, table in zip(range(number, stop), group, strict=True):
            if n in shifts:
                table = table + shifts[n].reshape(-1, *[1] * (table.ndim - 1))
            factors.append(table.min(axis=0))
            value += float(factors[-1]) if buckets[n].sends_to < 0 else 0.0
        number = stop
    return Elimination(plan, value, factors, shifts)


def _oriented(plan: BucketPlan, ij: tuple[int, int], table: Array) -> Array:
    return table if plan.position[ij[0]] < plan.position[ij[1]] else table.T


def _table(bucket: Bucket, factors: list[Array]) -> Array:
    """Sum a bucket's factors, smallest first, so that few additions are over the whole table."""
    views = [factors[f].reshape(v) for f, v in zip(bucket.factors, bucket.views, strict=True)]
    views.sort(key=lambda a: a.size)
    total = views[0]
    for view in views[1:]:
        total = total + view
    return total if total.shape == bucket.shape else np.broadcast_to(total, bucket.shape)


def _shifts(group: list[Array]) -> Array:
    """Shifts that make the best costs of a split node's copies agree; they add to zero. Shape [parts, k]."""
    best = np.array([t.reshape(len(t), -1).min(axis=1) for t in group])
    best[:, ~np.isfinite(best).all(axis=0)] = 0.0
    return best.mean(axis=0) - best
