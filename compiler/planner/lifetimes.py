"""Liveness over the whole step: when each value's bytes are there, in a single execution order.

A live point is one executed operation; loop bodies stand once, at their place, since every trip holds the
same values.
"""

from __future__ import annotations

import numpy as np

from .model import Definition
from .solver.problem import EdgeUsage, Usage


class Lifetimes:
    """Collects intervals while a program is walked in execution order."""

    def __init__(self) -> None:
        self._names: list[str] = ["arguments"]
        self._intervals: dict[tuple[int, int], list[int]] = {}
        self._bytes: dict[tuple[int, int], np.ndarray] = {}
        self._copies: dict[int, tuple[int, int, np.ndarray]] = {}
        self._to_end: set[tuple[int, int]] = set()
        self._overwritten: dict[tuple[int, int], int] = {}

    @property
    def num_points(self) -> int:
        """Number of live points so far."""
        return len(self._names)

    @property
    def names(self) -> tuple[str, ...]:
        """What runs at each live point."""
        return tuple(self._names)

    def tick(self, name: str) -> None:
        """Begins the next live point."""
        self._names.append(name)

    def start(self, definition: Definition, local_bytes: np.ndarray) -> None:
        """A value comes into being now, with these bytes on each device under each strategy."""
        key = (definition.variable, definition.port)
        now = len(self._names) - 1
        self._intervals[key] = [now, now + 1]
        self._bytes[key] = local_bytes

    def touch(self, definition: Definition) -> None:
        """A value is read now."""
        key = (definition.variable, definition.port)
        if key in self._intervals:
            self._intervals[key][1] = max(self._intervals[key][1], len(self._names))

    def overwrite(self, definition: Definition) -> bool:
        """What is made now takes a value's place, if nothing reads that later.

        Returns:
            False where it cannot: the value has no memory of its own, or gave its place already.
        """
        key = definition.variable, definition.port
        now = len(self._names)
        if key not in self._intervals or self._overwritten.get(key) == now:
            return False
        self._overwritten[key] = now
        return True

    def keep_to_end(self, variable: int, port: int) -> None:
        """A value leaves the program, or is an input that the caller keeps."""
        self._to_end.add((variable, port))

    def copy(self, edge: int, local_bytes: np.ndarray) -> None:
        """A resharded copy is made and read now."""
        if local_bytes.any():
            self._copies[edge] = (len(self._names) - 1, len(self._names), local_bytes)

    def hold_copy(self, edge: int) -> None:
        """A resharded copy is still wanted now."""
        if edge in self._copies:
            start, _, local_bytes = self._copies[edge]
            self._copies[edge] = (start, len(self._names), local_bytes)

    def usages(self) -> tuple[Usage, ...]:
        """Memory of values."""
        return tuple(
            Usage(
                variable,
                start,
                self._end((variable, port), start, end),
                self._bytes[variable, port],
            )
            for (variable, port), (start, end) in self._intervals.items()
        )

    def _end(self, key: tuple[int, int], start: int, end: int) -> int:
        if key in self._to_end:
            return self.num_points
        return end - 1 if self._overwritten.get(key) == end and end - 1 > start else end

    def edge_usages(self) -> tuple[EdgeUsage, ...]:
        """Memory of resharded copies."""
        return tuple(EdgeUsage(edge, start, end, local) for edge, (start, end, local) in self._copies.items())
