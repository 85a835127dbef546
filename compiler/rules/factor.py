"""The factor rule: an einsum-like statement of how an operation's dims map to *factors*.

A matmul ``[b, k] x [k, n] -> [b, n]`` has the factors ``b``, ``n`` (passed through) and ``k`` (reduced).
Splitting a factor over a mesh axis splits every dim it appears in; splitting a reduced factor leaves a
partial result. The language is that of Shardy's op sharding rules (openxla/shardy, docs/propagation.md); a
dim may hold several factors, major first, as a reshape ``[ij] -> [i, j]`` does.
"""

from __future__ import annotations

from dataclasses import dataclass

DimFactors = tuple[int, ...]
TensorFactors = tuple[DimFactors, ...]

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class FactorRule:
    """Maps the dims of operands and results to factors.

    Attributes:
        sizes: size of each factor.
        operands: for each operand, for each dim, its factors, major first. A dim of size 1 may have none.
        results: the same for results.
        reduced: factors summed (or otherwise combined) away; they appear in no result.
        fixed: factors that must not be split (index vectors, halos, sorted dims).
    """

    sizes: tuple[int, ...]
    operands: tuple[TensorFactors, ...]
    results: tuple[TensorFactors, ...]
    reduced: frozenset[int] = frozenset()
    fixed: frozenset[int] = frozenset()

    def splittable(self) -> tuple[int, ...]:
        """Factors that a mesh axis may split, in order."""
        return tuple(f for f, size in enumerate(self.sizes) if size > 1 and f not in self.fixed)

    def __str__(self) -> str:
        names = [_LETTERS[i % 26] * (i // 26 + 1) for i in range(len(self.sizes))]
        sides = [", ".join(_format(t, names) for t in side) for side in (self.operands, self.results)]
        sizes = " ".join(f"{n}={s}" for n, s in zip(names, self.sizes, strict=True))
        marks = [
            f"{title}={{{','.join(names[f] for f in sorted(chosen))}}}"
            for title, chosen in (("reduced", self.reduced), ("fixed", self.fixed))
            if chosen
        ]
        return " ".join([f"({sides[0]})->({sides[1]})", f"{{{sizes}}}", *marks])


def _format(tensor: TensorFactors, names: list[str]) -> str:
    return "[" + " ".join("".join(names[f] for f in dim) or "1" for dim in tensor) + "]"


def replicated_rule(operand_ranks: list[int], result_ranks: list[int]) -> FactorRule:
    """The rule of an operation nothing is known about: no dim may be split."""
    empty = [tuple(() for _ in range(rank)) for rank in (*operand_ranks, *result_ranks)]
    return FactorRule((), tuple(empty[: len(operand_ranks)]), tuple(empty[len(operand_ranks) :]))
