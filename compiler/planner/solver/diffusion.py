"""Costs moved between nodes and pairs so that a bound from split tables gets close to the optimum.

Any vectors M_i, M_j per pair (i, j) leave every choice's cost as it is when c_i and c_j gain them and E_ij
loses them:

    c_i + sum M_i,    c_j + sum M_j,    E_ij[p, q] - M_i[p] - M_j[q].

Where all tables are whole this changes nothing. Mini-buckets split tables, and their bound depends on how
the costs are spread. The vectors come from sequential tree-reweighted message passing (Kolmogorov,
"Convergent tree-reweighted message passing for energy minimization", PAMI 2006): nodes are taken in order,
forwards and then backwards, and node s tells each neighbour t on the far side

    M_st[q] = min_p ( theta_s[p] / n_s - M_ts[p] + E_st[p, q] ),    theta_s = c_s + sum of its messages,

with n_s the larger of its numbers of earlier and later neighbours. Its fixed points are close to the best
bound that pairs alone can give.

Whatever the messages, the bound that follows is valid; they may be kept while costs change.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .problem import Array

FORBIDDEN = 10.0  # stands for infinity inside messages, in multiples of the largest cost


class Diffusion:
    """Messages over one graph, kept from one set of costs to the next.

    Attributes:
        pairs: Adjacent nodes (i, j) with i < j, one entry per pair table.
    """

    def __init__(self, sizes: Sequence[int] | NDArray[np.int64], pairs: Sequence[tuple[int, int]]) -> None:
        self.pairs = tuple(pairs)
        self._messages = [[np.zeros(sizes[i]), np.zeros(sizes[j])] for i, j in self.pairs]
        # Per node: (pair number, which end of the pair the node is).
        self._later: list[list[tuple[int, int]]] = [[] for _ in sizes]
        self._earlier: list[list[tuple[int, int]]] = [[] for _ in sizes]
        for number, (i, j) in enumerate(self.pairs):
            self._later[i].append((number, 0))
            self._earlier[j].append((number, 1))

    def sweep(self, unary: Sequence[Array], tables: Sequence[Array], sweeps: int) -> None:
        """Improve the messages for given costs.

        Args:
            unary: Cost of each strategy of each node, shapes [k].
            tables: Pair costs in the order of `pairs`, shapes [k_i, k_j].
            sweeps: Passes forwards and backwards.
        """
        cap = FORBIDDEN * max((_largest(t) for t in (*unary, *tables)), default=0.0) + 1e-300
        costs = [np.minimum(c, cap) for c in unary]
        whole = [np.minimum(t, cap) for t in tables]
        both = [(t, np.ascontiguousarray(t.T)) for t in whole]
        order = range(len(unary))
        for _ in range(sweeps):
            self._pass(order, self._later, self._earlier, costs, both)
            self._pass(order[::-1], self._earlier, self._later, costs, both)

    def moved(self, unary: Sequence[Array], tables: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """Return costs of nodes and pairs under which every choice costs what it did."""
        costs, pairs = list(unary), []
        for (i, j), table, (to_i, to_j) in zip(self.pairs, tables, self._messages, strict=True):
            costs[i] = costs[i] + to_i
            costs[j] = costs[j] + to_j
            pairs.append(table - to_i[:, None] - to_j)
        return costs, pairs

    def _pass(
        self,
        order: range,
        ahead: list[list[tuple[int, int]]],
        behind: list[list[tuple[int, int]]],
        costs: list[Array],
        tables: list[tuple[Array, Array]],
    ) -> None:
        """Send messages from each node in turn to its neighbours ahead."""
        messages = self._messages
        for v in order:
            if not ahead[v]:
                continue
            total = costs[v].copy()
            for number, side in (*ahead[v], *behind[v]):
                total += messages[number][side]
            total /= max(len(ahead[v]), len(behind[v]))
            for number, side in ahead[v]:
                own = total - messages[number][side]
                message = np.minimum.reduce(tables[number][side] + own[:, None], axis=0)
                messages[number][1 - side] = message - np.minimum.reduce(message)


def _largest(table: Array) -> float:
    return float(np.abs(table).max(initial=0.0, where=np.isfinite(table)))
