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
    sizes: Sequence[int], pairs: Iterable[tuple[int, int]], table_limit: float
) -> list[int]:
    """Return the nodes in elimination order.

    Args:
        sizes: Strategies of each node.
        pairs: Pairs of adjacent nodes.
        table_limit: Tables larger than this will be split, so their neighbours are not joined.

    Returns:
        A permutation of the nodes; ties go to the smaller index, so the order is reproducible.
    """
    weight = [math.log(max(k, 1)) for k in sizes]
    near: list[set[int]] = [set() for _ in sizes]
    for i, j in pairs:
        near[i].add(j)
        near[j].add(i)
    key = [weight[v] + sum(weight[u] for u in near[v]) for v in range(len(sizes))]
    heap = [(k, v) for v, k in enumerate(key)]
    heapq.heapify(heap)
    order, done = [], [False] * len(sizes)
    while heap:
        k, v = heapq.heappop(heap)
        if done[v] or k != key[v]:
            continue
        done[v] = True
        order.append(v)
        for u in _remove(v, near, weight, key, join=k <= math.log(table_limit) + 1e-9):
            heapq.heappush(heap, (key[u], u))
    return order


def _remove(v: int, near: list[set[int]], weight: list[float], key: list[float], join: bool) -> list[int]:
    """Take v out of the graph, join its neighbours, and return them with their keys renewed."""
    around = sorted(near[v])
    for u in around:
        near[u].discard(v)
        if join:
            near[u].update(around)
            near[u].discard(u)
    for u in around:
        key[u] = weight[u] + sum(weight[w] for w in sorted(near[u]))
    near[v] = set()
    return around
