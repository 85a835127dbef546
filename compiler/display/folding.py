"""Folds the flat list of a plan's arrays into a short tree.

Two folds, both exact (only equal things are joined):

1. *Layers*: sibling subtrees with equal contents whose names differ only in a number become one
   (``block_0`` .. ``block_11`` is ``block_{0..11}``).
2. *Mirrors*: a subtree with the same paths, shapes and shardings as an earlier, shallower one (Adam's moments
   next to the parameters, the results next to the arguments) becomes one line that names it.

Subtrees are compared by interned numbers, so both folds take time linear in the number of arrays.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ..plan.plan import ArraySpec

_SLOT = re.compile(r"(\{[^}]*\}|\d+)")
_MAX_SLOTS = 4
# What may stand for others: a subtree near the root, or one large enough that repeating it would be noise.
_SHALLOW, _MIN_SHALLOW_LEAVES, _MIN_DEEP_LEAVES = 3, 2, 4


_Nested: TypeAlias = "dict[str, ArraySpec | _Nested]"


@dataclass(frozen=True)
class FoldedNode:
    """A subtree, or several equal ones.

    Attributes:
        name: last path component, with ``{0..11}`` where layers were joined.
        path: full path; of the first layer where layers were joined.
        copies: how many equal subtrees of this parent it stands for.
        array: the array, for a leaf.
        children: subtrees in their first order.
        signature: equal for subtrees whose paths, shapes, types and shardings are equal.
        shape_signature: the same without element types and donation.
        num_arrays: arrays in it, for one copy.
        mirror_of: what it repeats (``state/params``, ``argument state``), or ``""``.
    """

    name: str
    path: str
    copies: int
    array: ArraySpec | None
    children: tuple[FoldedNode, ...]
    signature: int
    shape_signature: int
    num_arrays: int
    mirror_of: str = ""

    def leaves(self) -> Iterator[tuple[ArraySpec, int]]:
        """Arrays with how many of each one copy holds."""
        if self.array is not None:
            yield self.array, 1
        for child in self.children:
            for array, count in child.leaves():
                yield array, count * child.copies


@dataclass
class Folder:
    """Folds several lists of arrays; those folded first may be named by those that come later."""

    _numbers: dict[Hashable, int] = field(default_factory=dict)
    _references: dict[int, tuple[FoldedNode, str]] = field(default_factory=dict)

    def fold(self, arrays: Sequence[ArraySpec], role: str) -> tuple[FoldedNode, ...]:
        """Folds one list.

        Args:
            arrays: arrays with their paths. Scalars are left out.
            role: ``"argument"`` or ``"result"``, for naming them from another list.

        Returns:
            One tree for each first path component.
        """
        nested: _Nested = {}
        for array in arrays:
            if array.shape:
                _insert(nested, array)
        roots = self._children(nested, "")
        for node, depth in sorted(_walk(roots, 1), key=_standing):
            self._offer(node, depth, role)
        return tuple(self._mirrored(root, role) for root in roots)

    def _children(self, nested: _Nested, prefix: str) -> tuple[FoldedNode, ...]:
        return join_layers([self._node(name, f"{prefix}{name}", sub) for name, sub in nested.items()])

    def _node(self, name: str, path: str, sub: ArraySpec | _Nested) -> FoldedNode:
        if isinstance(sub, ArraySpec):
            shape = self._number((sub.shape, sub.spec))
            full = self._number((sub.shape, sub.spec, sub.dtype, sub.donated))
            return FoldedNode(name, path, 1, sub, (), full, shape, 1)
        children = self._children(sub, f"{path}/")
        full = self._number(tuple((c.name, c.signature) for c in children))
        shape = self._number(tuple((c.name, c.shape_signature) for c in children))
        num_arrays = sum(c.num_arrays * c.copies for c in children)
        return FoldedNode(name, path, 1, None, children, full, shape, num_arrays)

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _offer(self, node: FoldedNode, depth: int, role: str) -> None:
        least = _MIN_SHALLOW_LEAVES if depth <= _SHALLOW else _MIN_DEEP_LEAVES
        if node.num_arrays >= least:
            self._references.setdefault(node.shape_signature, (node, role))

    def _mirrored(self, node: FoldedNode, role: str) -> FoldedNode:
        """The node with every subtree that repeats a reference marked as such."""
        reference, owner = self._references.get(node.shape_signature, (node, role))
        if (reference.path, owner) != (node.path, role):
            return replace(node, mirror_of=reference.path if owner == role else f"{owner} {reference.path}")
        return replace(node, children=tuple(self._mirrored(child, role) for child in node.children))


def join_layers(nodes: Sequence[FoldedNode]) -> tuple[FoldedNode, ...]:
    """Joins siblings that are equal but for one number in their names, for each number a name may hold."""
    joined = list(nodes)
    for slot in range(_MAX_SLOTS):
        joined = _join_slot(joined, slot)
    return tuple(joined)


def _join_slot(nodes: Sequence[FoldedNode], slot: int) -> list[FoldedNode]:
    """Joins equal siblings whose names differ only in their ``slot``-th number; first order is kept."""
    groups: dict[Hashable, list[tuple[str, FoldedNode]]] = {}
    for node in nodes:
        # Odd pieces are numbers, or numbers joined before.
        pieces = _SLOT.split(node.name)
        at = 2 * slot + 1
        number = pieces[at] if at < len(pieces) else ""
        free = number.isdigit()
        key = (*pieces[:at], None, *pieces[at + 1 :], node.signature) if free else (node.name, id(node))
        groups.setdefault(key, []).append((number, node))
    return [_joined(members, slot) for members in groups.values()]


def _joined(members: Sequence[tuple[str, FoldedNode]], slot: int) -> FoldedNode:
    first = members[0][1]
    if len(members) == 1:
        return first
    pieces = _SLOT.split(first.name)
    pieces[2 * slot + 1] = f"{{{number_ranges([number for number, _ in members])}}}"
    return replace(first, name="".join(pieces), copies=sum(node.copies for _, node in members))


def number_ranges(numbers: Sequence[str]) -> str:
    """Several numbers in short: ``0..11``, ``0,1,4..6``, or ``0,2,..,10`` for a progression."""
    ordered = sorted(numbers, key=int)
    steps = {int(b) - int(a) for a, b in zip(ordered, ordered[1:], strict=False)}
    if len(ordered) > 3 and len(steps) == 1 and steps != {1}:
        return f"{ordered[0]},{ordered[1]},..,{ordered[-1]}"
    runs: list[list[str]] = []
    for number in ordered:
        if runs and int(number) == int(runs[-1][-1]) + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}..{run[-1]}" if len(run) > 2 else ",".join(run) for run in runs)


def _insert(nested: _Nested, array: ArraySpec) -> None:
    """Puts an array at its path; where a key with a slash meets another array, under the rest of the path."""
    *parents, name = array.path.split("/")
    for i, part in enumerate(parents):
        inner = nested.setdefault(part, {})
        if isinstance(inner, ArraySpec):
            name = "/".join([*parents[i:], name])
            break
        nested = inner
    while name in nested:
        name += "'"
    nested[name] = array


def _walk(nodes: Sequence[FoldedNode], depth: int) -> Iterator[tuple[FoldedNode, int]]:
    for node in nodes:
        yield node, depth
        yield from _walk(node.children, depth + 1)


def _standing(pair: tuple[FoldedNode, int]) -> tuple[int, bool]:
    """Order in which equal subtrees give the name: short paths first, then those called parameters."""
    node, depth = pair
    return depth, not any(part.startswith("param") for part in node.path.split("/"))
