"""Layer-repeated problems shaped like a transformer's training step, with memory.

A layer has `width` sub-layers of six nodes: weight, forward operation, activation, backward operation,
weight gradient and update. Residual edges span half a layer. Each strategy has one of a few layouts, and an
edge costs what changing layout costs, so neighbouring choices matter the way they do in real plans. All
copies of a layer share their tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from meshwright.compiler.planner.solver import Edge, Problem, Usage

KINDS = ("weight", "forward", "activation", "backward", "gradient", "update")


@dataclass(frozen=True)
class Shape:
    """Size of a synthetic problem.

    Attributes:
        layers: Copies of the layer.
        width: Sub-layers in a layer; a layer has 6 * width nodes.
        strategies: Strategies of each node.
        layouts: Distinct layouts.
        seed: Of the random tables.
    """

    layers: int
    width: int = 10
    strategies: int = 25
    layouts: int = 6
    seed: int = 0


def training_step(shape: Shape, budget_share: float | None = None) -> Problem:
    """Build a problem.

    Args:
        shape: Its size.
        budget_share: Budget as a share of what the dearest choice of memory would take, or None for no
            budget.
    """
    tables = _Tables(shape)
    names, costs, edges, usages = [], [], [], []
    points = 2 * shape.layers * shape.width + 1
    for layer in range(shape.layers):
        for sub in range(shape.width):
            names += [f"layer{layer}.{sub}.{kind}" for kind in KINDS]
            costs += [tables.cost[sub, kind] for kind in KINDS]
            edges += _edges(shape, tables, layer, sub)
            usages += _usages(shape, tables, layer, sub, points)
    problem = Problem(tuple(names), tuple(costs), tuple(edges), tuple(usages), (), points)
    if budget_share is None:
        return problem
    most = problem.peak_bytes([int(np.argmax(u)) for u in _largest(problem)])
    return replace(problem, budget_bytes=float(np.floor(budget_share * most)))


def _largest(problem: Problem) -> list[np.ndarray]:
    bytes_of = [np.zeros(len(c)) for c in problem.costs]
    for usage in problem.usages:
        bytes_of[usage.node] = usage.bytes
    return bytes_of


class _Tables:
    """Random tables of one layer, shared by all copies."""

    def __init__(self, shape: Shape) -> None:
        rng = np.random.default_rng(shape.seed)
        self.cost, self.bytes, self.layout, self._pairs = {}, {}, {}, {}
        distance = rng.gamma(2.0, 20e-6, (shape.layouts, shape.layouts))
        np.fill_diagonal(distance, 0.0)
        self.distance = distance
        for sub in range(shape.width):
            for kind in KINDS:
                split = 2.0 ** -rng.integers(0, 4, shape.strategies)
                self.layout[sub, kind] = rng.integers(0, shape.layouts, shape.strategies)
                self.cost[sub, kind] = rng.gamma(2.0, 10e-6, shape.strategies) / np.sqrt(split)
                self.bytes[sub, kind] = np.floor(rng.integers(1, 9) * 2**20 * split)
                self.cost[sub, kind][0] += 1e-4  # the lean strategy is slow
                self.bytes[sub, kind][0] = 2**14
        self.scale = {(a, b): float(rng.gamma(2.0, 0.5)) for a in KINDS for b in KINDS}

    def pair(self, a: tuple[int, str], b: tuple[int, str]) -> np.ndarray:
        """Edge cost between two kinds of node; the same array for every copy."""
        if (a, b) not in self._pairs:
            change = self.distance[self.layout[a][:, None], self.layout[b][None, :]]
            self._pairs[a, b] = change * self.scale[a[1], b[1]]
        return self._pairs[a, b]


def _node(shape: Shape, layer: int, sub: int, kind: str) -> int:
    return (layer * shape.width + sub) * len(KINDS) + KINDS.index(kind)


def _edges(shape: Shape, tables: _Tables, layer: int, sub: int) -> list[Edge]:
    """Edges of one sub-layer: within it, to the one before it, and the residual edges."""
    found = []

    def join(a: str, b: str, back: int = 0) -> None:
        at = layer * shape.width + sub - back
        if at >= 0:
            other = at % shape.width
            i, j = _node(shape, layer, sub, a), _node(shape, at // shape.width, other, b)
            found.append(Edge(i, j, tables.pair((sub, a), (other, b))))

    join("weight", "forward")
    join("forward", "activation")
    join("weight", "backward")
    join("backward", "gradient")
    join("gradient", "update")
    join("weight", "update")
    join("forward", "activation", back=1)
    join("gradient", "activation", back=1)
    join("backward", "backward", back=1)
    if sub % max(shape.width // 2, 1) == 0:
        join("activation", "activation", back=max(shape.width // 2, 1))
    return found


def _usages(shape: Shape, tables: _Tables, layer: int, sub: int, points: int) -> list[Usage]:
    """Weights and updates live throughout, activations from forward to backward, the rest briefly."""
    at = layer * shape.width + sub
    back = points - 1 - at
    spans = {
        "weight": (0, points),
        "update": (0, points),
        "forward": (at, at + 1),
        "activation": (at, back + 1),
        "backward": (back, back + 1),
        "gradient": (back, points),
    }
    return [Usage(_node(shape, layer, sub, k), *spans[k], tables.bytes[sub, k]) for k in KINDS]
