"""Which features are inner ones: those that a column- and a row-parallel pair of parameters has in common.

Every parameter leads from one group of features to another. Groups are taken by turns, inner and not: a
product over split features that makes whole ones has to sum these over devices, and of the two ways to begin,
the one that sums less is taken. With a residual stream, heads, hidden units and vocabulary are inner; in a
plain chain, every other layer's features are (Shoeybi et al. 2019, https://arxiv.org/abs/1909.08053).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

from ...rules.factor_algebra import Factor
from .contractions import Contraction

_Links = Mapping[int, Mapping[int, None]]


def inner_features(contractions: Sequence[Contraction], features: Iterable[Factor]) -> frozenset[Factor]:
    """The inner features.

    Args:
        contractions: applications of parameters, in program order.
        features: the factors that parameters contract or make.
    """
    wanted = set(features)
    group = _groups(contractions, wanted)
    links: dict[int, dict[int, None]] = {number: {} for number in group.values()}
    width = dict.fromkeys(links, 1)
    for factor, number in group.items():
        width[number] *= factor.size
    summed = Counter(dict.fromkeys(links, 0))
    for c in contractions:
        for contracted, made in _ends(c, group):
            links[contracted][made] = links[made][contracted] = None
            summed[made] += width[made]
    inner: set[int] = set()
    done: set[int] = set()
    for start in links:
        if start not in done:
            turns = _by_turns(start, links)
            done |= turns.keys()
            inner |= min(_sides(turns), key=lambda side: sum(summed[n] for n in turns.keys() - side))
    return frozenset(f for f, number in group.items() if number in inner)


def _ends(c: Contraction, group: Mapping[Factor, int]) -> list[tuple[int, int]]:
    contracted = {group[f] for f in c.contracted if f in group}
    made = {group[f] for f in c.made if f in group}
    return [(a, b) for a in sorted(contracted) for b in sorted(made) if a != b]


def _groups(contractions: Sequence[Contraction], wanted: set[Factor]) -> dict[Factor, int]:
    """Features that stand on one side of a parameter (heads and their width) are one group."""
    parent: dict[Factor, Factor] = {}

    def find(f: Factor) -> Factor:
        while parent.setdefault(f, f) is not f:
            f = parent[f]
        return f

    for c in contractions:
        for side in (c.contracted, c.made):
            features = [f for f in side if f in wanted]
            for feature in features:
                parent[find(feature)] = find(features[0])
    number: dict[Factor, int] = {}
    return {f: number.setdefault(find(f), len(number)) for f in parent}


def _by_turns(start: int, links: _Links) -> dict[int, bool]:
    """Whether each group in reach is an odd number of parameters away."""
    found = {start: False}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        for there in links[here]:
            if there not in found:
                found[there] = not found[here]
                queue.append(there)
    return found


def _sides(turns: Mapping[int, bool]) -> list[set[int]]:
    return [{n for n, odd in turns.items() if odd is side} for side in (True, False)]
