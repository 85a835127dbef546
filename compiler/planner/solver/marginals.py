"""Min-marginals: the least cost of the whole problem with one node held at one strategy.

A second pass over the bucket tables, from the last bucket to the first. The belief of a bucket is its own
table plus what the rest of the problem adds, B(v, N) = T(v, N) + (min over the receiver's other nodes of
its belief)(N) - m(N), and the min-marginal of v is min_N B(v, N) (plus the minima of the graph's other
components). With split buckets each value is that of the relaxed problem, so it is still a lower bound. A
strategy whose min-marginal is above a known solution's cost can be dropped: it is in no better solution
("reduced cost fixing").
"""

from __future__ import annotations

import numpy as np

from .buckets import Elimination
from .elimination import Core
from .problem import Array


def min_marginals(run: Elimination) -> list[Array]:
    """Return, for each node, the least total cost under each strategy, shapes [k].

    Lower bounds on it where the plan is not exact.
    """
    beliefs: list[Array | None] = [None] * len(run.plan.buckets)
    marginal = [np.full(int(k), -np.inf) for k in run.plan.sizes]
    readers = _last_reader(run)
    for number in range(len(run.plan.buckets) - 1, -1, -1):
        belief = _belief(run, number, beliefs)
        beliefs[number] = belief
        v = run.plan.buckets[number].scope[0]
        best = belief.reshape(len(belief), -1).min(axis=1)
        marginal[v] = np.maximum(marginal[v], best)
        for done in readers[number]:
            beliefs[done] = None
    return marginal


def core_marginals(core: Core, marginals: list[Array]) -> list[Array]:
    """Extend min-marginals of a core to the nodes removed before it.

    A removed node v with table T(v, N) adds T(v, N) - min_v T(v, N) to what the rest costs at least, which is
    the largest of its neighbours' min-marginals; so the least sum over N bounds the min-marginal of v.

    Args:
        core: What elimination left.
        marginals: Of its nodes, without its constant, shapes [k].
    """
    found: dict[int, Array] = {v: m + core.constant for v, m in zip(core.nodes, marginals, strict=True)}
    least = max((float(m.min()) for m in found.values()), default=core.constant)
    for item in reversed(core.stack):
        with np.errstate(invalid="ignore"):  # inf - inf where no strategy is allowed: never the minimum
            extra = item.table - item.table.min(axis=0)
        rest = np.full(extra.shape[1:], least)
        for axis, u in enumerate(item.neighbours):
            rest = np.maximum(rest, found[u].reshape([-1 if a == axis else 1 for a in range(rest.ndim)]))
        total = np.where(np.isnan(extra), np.inf, extra + rest)
        found[item.node] = total.reshape(len(total), -1).min(axis=1)
    return [found[v] for v in range(len(core.unary))]


def _belief(run: Elimination, number: int, beliefs: list[Array | None]) -> Array:
    """Add the rest of the problem to one bucket's table."""
    bucket, table, message = run.plan.buckets[number], run.table(number), run.message(number)
    if bucket.sends_to < 0:
        return table + (run.value - float(message)) if np.isfinite(run.value) else table
    receiver = run.plan.buckets[bucket.sends_to]
    outer = beliefs[bucket.sends_to]
    if outer is None:
        raise RuntimeError("bucket read before its receiver")
    axes = tuple(a for a, u in enumerate(receiver.scope) if u not in bucket.scope[1:])
    projected = outer.min(axis=axes)
    down = np.full(projected.shape, np.inf)
    np.subtract(projected, message, out=down, where=np.isfinite(message))
    return table + down


def _last_reader(run: Elimination) -> list[list[int]]:
    """Return for each bucket the beliefs nobody needs after it (its first sender reads a receiver last)."""
    first: dict[int, int] = {}
    for number, bucket in enumerate(run.plan.buckets):
        if bucket.sends_to >= 0:
            first.setdefault(bucket.sends_to, number)
    readers: list[list[int]] = [[] for _ in run.plan.buckets]
    for receiver, sender in first.items():
        readers[sender].append(receiver)
    return readers
