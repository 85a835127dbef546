"""Cost and copy matrices between lists of layouts, shared by all equal pairs.

A program of thousands of operations has a few dozen distinct lists of layouts; every matrix is computed once
and handed out by reference.
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
    """Matrices of one mesh, cached by value type and layout lists."""

    def __init__(self, mesh: LogicalMesh) -> None:
        self._mesh = mesh
        self._seconds: dict[tuple[TensorType, Layout, Layout], float] = {}
        self._costs: dict[tuple[TensorType, Layouts, Layouts, float], NDArray[np.float64]] = {}
        self._copies: dict[tuple[TensorType, Layouts, Layouts], NDArray[np.float64]] = {}
        self._interned: dict[Layouts, Layouts] = {}

    def intern(self, layouts: Sequence[Layout]) -> Layouts:
        """One shared tuple for equal lists."""
        key = tuple(layouts)
        return self._interned.setdefault(key, key)

    def cost(
        self, type_: TensorType, sources: Layouts, targets: Layouts, weight: float
    ) -> NDArray[np.float64]:
        """Seconds from each source (rows) to each target (columns), times ``weight``."""
        key = (type_, sources, targets, weight)
        if key not in self._costs:
            self._costs[key] = self._matrix(type_, sources, targets) * weight
        return self._costs[key]

    def copies(self, type_: TensorType, sources: Layouts, targets: Layouts) -> NDArray[np.float64]:
        """Bytes of the resharded copy on each device, by source and target."""
        key = (type_, sources, targets)
        if key not in self._copies:
            self._copies[key] = copy_bytes_matrix(type_, sources, targets, self._mesh.shape)
        return self._copies[key]

    def _matrix(self, type_: TensorType, sources: Layouts, targets: Layouts) -> NDArray[np.float64]:
        return np.array([[self._pair(type_, s, t) for t in targets] for s in sources])

    def _pair(self, type_: TensorType, source: Layout, target: Layout) -> float:
        key = (type_, source, target)
        if key not in self._seconds:
            self._seconds[key] = reshard_time_s(type_, source, target, self._mesh)
        return self._seconds[key]
