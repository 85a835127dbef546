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
