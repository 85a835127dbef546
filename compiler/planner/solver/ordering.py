"""Elimination orders: the node with the smallest joint table goes first.

Eliminating v makes one table over v and its present neighbours, of prod k entries, and joins those
neighbours. The greedy choice of the smallest such table (weighted min-degree) is the usual heuristic for
min-plus bucket elimination.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence


def elimination_order(
    sizes: Sequence[int], pairs: Iterable[tuple[int, int]], table_limit: float, whole: bool = False
) -> list[int]:
    """Return the nodes in elimination order.

    Args:
        sizes: Strategies of each node.
        pairs: Pairs of adjacent nodes.
        table_limit: Tables larger than this will be split, so their neighbours are not joined.
        whole: Stop before the first of these; the order then is incomplete.

    Returns:
        A permutation of the nodes; ties go to the smaller index, so the order is reproducible.
    """
    weight = [_log(k) for k in sizes]
    near: list[set[int]] = [set() for _ in sizes]
    for i, j in pairs:
        near[i].add(j)
        near[j].add(i)
    key = [weight[v] + sum(weight[u] for u in near[v]) for v in range(len(sizes))]
    heap = [(k, v) for v, k in enumerate(key)]
    heapq.heapify(heap)
    order, done = [], [False] * len(sizes)
    limit = _log(table_limit) + 1
    while heap:
        k, v = heapq.heappop(heap)
        if done[v] or k != key[v]:
            continue
        if whole and k > limit:
            break
        done[v] = True
        order.append(v)
        for u in _remove(v, near, weight, key, join=k <= limit):
            heapq.heappush(heap, (key[u], u))
    return order


def _log(size: float) -> int:
    """Logarithm in fixed point: sums kept up to date stay exact, so ties are ties on every machine."""
    return round(math.log(max(size, 1)) * (1 << 30))


def _remove(v: int, near: list[set[int]], weight: list[int], key: list[int], join: bool) -> list[int]:
    """Take v out of the graph, join its neighbours, and return them with their keys renewed."""
    around = near[v]
    near[v] = set()
    for u in around:
        near[u].discard(v)
        key[u] -= weight[v]
        if join:
            new = around - near[u]
            new.discard(u)
            near[u] |= new
            key[u] += sum(weight[w] for w in new)
    return sorted(around)
