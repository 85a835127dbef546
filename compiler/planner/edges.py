"""Cost and copy matrices between lists of layouts, shared by all equal pairs.

A program of thousands of operations has a few dozen distinct lists of layouts; every matrix is computed once
and handed out by reference. Lists are interned, so that a look-up compares identities and hashes no layout.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...cost_models.mesh import LogicalMesh
from ..ir import TensorType
from .layout import Layout
from .reshard import copy_bytes_matrix, reshard_time_s

Layouts = tuple[Layout, ...]


class EdgeTable:
    """Matrices of one mesh, cached by value type and interned layout lists."""

    def __init__(self, mesh: LogicalMesh) -> None:
        """Begins with nothing known about a mesh."""
        self._mesh = mesh
        self._interned: dict[Layouts, Layouts] = {}
        self._seconds: dict[tuple[TensorType, Layout, Layout], float] = {}
        self._costs: dict[tuple[TensorType, int, int, float], NDArray[np.float64]] = {}
        self._copies: dict[tuple[TensorType, int, int], NDArray[np.float64]] = {}

    def intern(self, layouts: Sequence[Layout]) -> Layouts:
        """One shared tuple for equal lists; ``cost`` and ``copies`` want such."""
        key = tuple(layouts)
        return self._interned.setdefault(key, key)

    def cost(
        self, type_: TensorType, sources: Layouts, targets: Layouts, weight: float
    ) -> NDArray[np.float64]:
        """Seconds from each source (rows) to each target (columns), times ``weight``."""
        key = (type_, id(sources), id(targets), weight)
        found = self._costs.get(key)
        if found is None:
            rows = [[self._pair(type_, s, t) * weight for t in targets] for s in sources]
            found = self._costs[key] = np.array(rows)
        return found

    def copies(self, type_: TensorType, sources: Layouts, targets: Layouts) -> NDArray[np.float64]:
        """Bytes of the resharded copy on each device, by source and target."""
        key = (type_, id(sources), id(targets))
        found = self._copies.get(key)
        if found is None:
            found = self._copies[key] = copy_bytes_matrix(type_, sources, targets, self._mesh.shape)
        return found

    def _pair(self, type_: TensorType, source: Layout, target: Layout) -> float:
        key = (type_, source, target)
        if key not in self._seconds:
            self._seconds[key] = reshard_time_s(type_, source, target, self._mesh)
        return self._seconds[key]
