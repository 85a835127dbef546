"""Finds the state that a step takes in and gives out again, so that it keeps one layout from call to call.

A training step returns its state with the pytree structure and types it came in with. Every subtree of the
result that equals an argument's subtree that way is taken for its successor: whole arguments first, then, for
donated arguments, their parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax


@dataclass(frozen=True)
class _Subtree:
    first: int
    """Index of its first leaf in the flattened whole."""
    leaves: tuple[Any, ...]
    structure: Any
    tree: Any

    @property
    def types(self) -> tuple[Any, ...]:
        return tuple((leaf.shape, str(leaf.dtype)) for leaf in self.leaves)

    def children(self) -> list[_Subtree]:
        """The subtrees one level down; a leaf has none."""
        if jax.tree_util.treedef_is_leaf(self.structure):
            return []
        return _siblings(_children(self.tree), self.first)


def match_carried_state(args_info: Any, out_info: Any) -> tuple[int | None, ...]:
    """For each output leaf, the input leaf it succeeds, or None.

    Args:
        args_info: the traced positional arguments, a tuple of pytrees of ``ArgInfo``.
        out_info: the result, a pytree of ``ShapeDtypeStruct``.
    """
    carried: list[int | None] = [None] * len(jax.tree.leaves(out_info))
    whole = _subtree(out_info, 0)
    candidates = [whole, *whole.children()] if whole.leaves else []
    for argument in _siblings(args_info, 0):
        _match(argument, candidates, carried)
    return tuple(carried)


def _match(argument: _Subtree, candidates: Sequence[_Subtree], carried: list[int | None]) -> None:
    donated = bool(argument.leaves) and all(leaf.donated for leaf in argument.leaves)
    for candidate in candidates:
        taken = any(c is not None for c in carried[candidate.first : candidate.first + len(candidate.leaves)])
        if not taken and _succeeds(argument, candidate, donated):
            for k in range(len(argument.leaves)):
                carried[candidate.first + k] = argument.first + k
            return
    if donated:
        for child in argument.children():
            _match(child, candidates, carried)


def _succeeds(argument: _Subtree, candidate: _Subtree, donated: bool) -> bool:
    # A single array of equal type is as likely an activation, and a scalar a loss, so an array alone must be
    # given away to count as state, and a scalar alone never does.
    lone = len(argument.leaves) == 1
    enough = bool(argument.leaves) and not (lone and (not donated or argument.leaves[0].shape == ()))
    return enough and argument.structure == candidate.structure and argument.types == candidate.types


def _subtree(tree: Any, first: int) -> _Subtree:
    leaves, structure = jax.tree.flatten(tree)
    return _Subtree(first, tuple(leaves), structure, tree)


def _siblings(trees: Sequence[Any], first: int) -> list[_Subtree]:
    found = []
    for tree in trees:
        found.append(_subtree(tree, first))
        first += len(found[-1].leaves)
    return found


def _children(tree: Any) -> list[Any]:
    # One level down: everything but the root itself counts as a leaf.
    return jax.tree.leaves(tree, is_leaf=lambda node: node is not tree)
