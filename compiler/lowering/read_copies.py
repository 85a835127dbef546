"""Copies of values read in another layout than their own: shared by near reads, made anew for far ones.

The memory model frees a resharded copy after its read, so that a weight gathered for the forward pass is
gathered again for the backward one. XLA would merge the two gathers and keep the whole weight in between. An
optimization barrier keeps them apart, as ``jax.checkpoint`` does for what it recomputes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax

# Reads at most so many operations apart share a copy. A layer's forward and backward reads are further apart
# except in the last layer, where the copy is still there.
_NEAR = 12


class ReadCopies:
    """The resharded copies of one graph while it is traced in program order."""

    def __init__(self) -> None:
        """Begins without copies."""
        self._made: dict[Hashable, tuple[int, Any]] = {}

    def read(
        self,
        key: Hashable,
        index: int,
        make: Callable[[Any], Any],
        source: Any,
        after: Sequence[Any],
    ) -> Any:
        """A copy for one read.

        Args:
            key: the value and the layout wanted.
            index: number of the reading node.
            make: makes a copy from the value.
            source: the value.
            after: other arrays that the node reads: a copy made anew is not made before these.
        """
        last, copy = self._made.get(key, (None, None))
        if last is None:
            copy = make(source)
        elif index - last > _NEAR:
            copy = make(_held_back(source, after))
        self._made[key] = index, copy
        return copy


def _held_back(source: Any, after: Sequence[Any]) -> Any:
    """The same array, to XLA a new one that depends on the others."""
    return jax.lax.optimization_barrier((source, *after))[0]
