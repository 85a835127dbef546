"""A declared rule: which factors the dims of a call have, as its user says, and its meeting with shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import ArgumentError
from ..ir import Node
from .declaration_text import DimNames, TensorNames
from .factor import FactorRule


@dataclass(frozen=True)
class Declaration:
    """A declared rule before it meets shapes.

    Attributes:
        text: the declaration as written.
        operands: for each operand, for each dim, the names of its factors, major first.
        results: the same for results.
        reduced: names of factors whose parts are summed.
        fixed: names of factors that must not be split.
        sizes: sizes that shapes do not say, by name.
    """

    text: str
    operands: tuple[TensorNames, ...]
    results: tuple[TensorNames, ...]
    reduced: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    sizes: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        marks = [
            f"{title}={' '.join(sorted(names))!r}"
            for title, names in (("reduced", self.reduced), ("fixed", self.fixed))
            if names
        ]
        return ", ".join([repr(self.text), *marks, *(f"{name}={size}" for name, size in self.sizes)])

    def apply(self, node: Node) -> FactorRule:
        """The rule of one call.

        Raises:
            ArgumentError: where the call has other ranks, other numbers of operands or results, or sizes that
                do not agree.
        """
        return self._read(node).rule(len(self.operands), self)

    def factor_names(self, node: Node) -> tuple[str, ...]:
        """The declared name of each factor of ``apply``'s rule; ``_`` for a dim that must not be split."""
        return tuple(self._read(node).names)

    def _read(self, node: Node) -> _Sizes:
        shapes = [v.type.shape for v in (*node.operands, *node.results)]
        if (len(self.operands), len(self.results)) != (len(node.operands), len(node.results)):
            raise ArgumentError(
                f"it has {len(self.operands)} operands and {len(self.results)} results, the call has "
                f"{len(node.operands)} and {len(node.results)}"
            )
        return _Sizes(dict(self.sizes), list(zip((*self.operands, *self.results), shapes, strict=True)))


class _Sizes:
    """Finds the size of each factor and numbers the factors in order of appearance."""

    def __init__(
        self, sizes: Mapping[str, int], tensors: Sequence[tuple[TensorNames, tuple[int, ...]]]
    ) -> None:
        self._known = dict(sizes)
        self.names: list[str] = []
        self._sizes: list[int] = []
        self._infer_all(tensors)
        self._tensors = [
            tuple(self._dim(dim, size) for dim, size in zip(names, shape, strict=True))
            for names, shape in tensors
        ]

    def rule(self, num_operands: int, declared: Declaration) -> FactorRule:
        operands, results = tuple(self._tensors[:num_operands]), tuple(self._tensors[num_operands:])
        read, made = ({f for tensor in side for dim in tensor for f in dim} for side in (operands, results))
        reduced = {f for f, name in enumerate(self.names) if name in declared.reduced}
        fixed = {f for f, name in enumerate(self.names) if name == "_" or name in declared.fixed}
        fixed |= (read ^ made) - reduced
        return FactorRule(tuple(self._sizes), operands, results, frozenset(reduced), frozenset(fixed))

    def _infer_all(self, tensors: Sequence[tuple[TensorNames, tuple[int, ...]]]) -> None:
        """Dims of one factor say its size; then dims of several say that of the one left."""
        for names, shape in tensors:
            if len(names) != len(shape):
                raise ArgumentError(f"[{_shown(names)}] has {len(names)} dims, the array has shape {shape}")
        dims = [pair for names, shape in tensors for pair in zip(names, shape, strict=True)]
        for dim, size in dims:
            # A dim of size one stands for any factor, as in broadcasting.
            if len(dim) == 1 and dim[0] != "_" and self._known.get(dim[0], 1) == 1:
                self._known[dim[0]] = size
        several = [(dim, size) for dim, size in dims if len(dim) > 1]
        # One group may say what another needs.
        for dim, size in several * len(several):
            self._infer(dim, size)

    def _infer(self, dim: DimNames, size: int) -> None:
        unknown = [name for name in dim if name not in self._known]
        known = math.prod(self._known[name] for name in dim if name in self._known)
        if len(unknown) == 1 and known and size % known == 0:
            self._known[unknown[0]] = size // known

    def _dim(self, dim: DimNames, size: int) -> tuple[int, ...]:
        if dim == ("_",):
            return (self._add("_", size),)
        missing = [name for name in dim if name not in self._known]
        if missing:
            raise ArgumentError(f"the size of {missing[0]} is not known: add {missing[0]}=SIZE")
        found = math.prod(self._known[name] for name in dim)
        if size == 1 and len(dim) <= 1 and found != 1:
            return ()
        if found != size:
            raise ArgumentError(f"{' '.join(dim) or '1'} is {found} elements, the array's dim has {size}")
        return tuple(self._number(name) for name in dim)

    def _number(self, name: str) -> int:
        return self.names.index(name) if name in self.names else self._add(name, self._known[name])

    def _add(self, name: str, size: int) -> int:
        self.names.append(name)
        self._sizes.append(size)
        return len(self._sizes) - 1


def _shown(names: TensorNames) -> str:
    return " ".join(f"({' '.join(dim)})" if len(dim) > 1 else (*dim, "1")[0] for dim in names)
