"""Composes the factor rules of several operations into the rule of all of them.

One JAX equation may lower to several StableHLO operations, each with a rule of its own. Tensors between them
identify
factors: the dims of a tensor as its producer sees them are the dims as its consumers see them. Where one side
    holds a
dim as one factor and the other as several (a reshape), the one is split into the several. Where sizes do not
divide each other, the factors on both sides are fixed: no split of one is a split of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .factor import FactorRule, TensorFactors

Tensor = list[list["Factor"]]


class Factor:
    """A factor under composition: a union-find cell that may also be split into smaller factors."""

    __slots__ = ("fixed", "parent", "parts", "reduced", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.parent: Factor | None = None
        self.parts: tuple[Factor, Factor] | None = None
        self.reduced = False
        self.fixed = False

    def leaves(self) -> list[Factor]:
        """The representative factors this one stands for now, major first."""
        here = self._representative()
        if here.parts is not None:
            return [leaf for part in here.parts for leaf in part.leaves()]
        return [here]

    def _representative(self) -> Factor:
        """The end of the chain of parents; the next call finds it in one step."""
        end = self
        while end.parent is not None:
            end = end.parent
        here = self
        while here.parent is not None:
            here.parent, here = end, here.parent
        return end

    def split(self, major: int) -> None:
        """Splits a representative into ``major`` and the rest."""
        self.parts = (Factor(major), Factor(self.size // major))
        for part in self.parts:
            part.fixed, part.reduced = self.fixed, self.reduced


def free_tensor(shape: Sequence[int]) -> Tensor:
    """A tensor whose dims are factors of their own."""
    return [[Factor(size)] for size in shape]


def identify(left: Sequence[Factor], right: Sequence[Factor]) -> None:
    """Makes two views of one dim agree."""
    a, b = _expand(left), _expand(right)
    while a and b:
        x, y = a[0], b[0]
        if x is y:
            a, b = a[1:], b[1:]
        elif x.size == y.size:
            _union(x, y)
            a, b = a[1:], b[1:]
        elif x.size > y.size and x.size % y.size == 0:
            x.split(y.size)
            a = _expand(a)
        elif y.size > x.size and y.size % x.size == 0:
            y.split(x.size)
            b = _expand(b)
        else:
            fix([*a, *b])
            return
    fix([*a, *b])


def identify_tensors(left: Tensor, right: Tensor) -> None:
    """Makes two views of one tensor agree, dim by dim."""
    for a, b in zip(left, right, strict=True):
        identify(a, b)


def fix(factors: Iterable[Factor]) -> None:
    """Forbids splitting factors."""
    for factor in factors:
        for leaf in factor.leaves():
            leaf.fixed = True


def close(operands: Sequence[Tensor], results: Sequence[Tensor]) -> FactorRule:
    """The rule of the composition, as its outer operands and results see it."""
    numbers: dict[Factor, int] = {}

    def tensor(view: Tensor) -> TensorFactors:
        return tuple(tuple(numbers.setdefault(f, len(numbers)) for f in _expand(dim)) for dim in view)

    seen_in = tuple(tensor(view) for view in operands)
    seen_out = tuple(tensor(view) for view in results)
    in_results = {f for view in seen_out for dim in view for f in dim}
    # A factor reduced inside that still reaches a result would need a collective in the middle, and one that
    # reaches none without being reduced (a triangular solve's matrix) is needed whole.
    fixed = {
        i
        for f, i in numbers.items()
        if f.fixed or f.reduced == (i in in_results) or _repeats(i, seen_in, seen_out)
    }
    reduced = {i for i in numbers.values() if i not in in_results}
    return FactorRule(
        tuple(f.size for f in numbers), seen_in, seen_out, frozenset(reduced - fixed), frozenset(fixed)
    )


def _repeats(factor: int, *sides: tuple[TensorFactors, ...]) -> bool:
    """Whether a factor stands twice in one tensor (a diagonal): no layout can split both dims by one axis."""
    return any(sum(dim.count(factor) for dim in tensor) > 1 for side in sides for tensor in side)


def _expand(factors: Sequence[Factor]) -> list[Factor]:
    return [leaf for factor in factors for leaf in factor.leaves() if leaf.size > 1]


def _union(x: Factor, y: Factor) -> None:
    x.fixed |= y.fixed
    x.reduced |= y.reduced
    y.parent = x
