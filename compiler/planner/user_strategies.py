"""Strategies of nodes whose layouts the user wrote down: only those that agree with what is written."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterator, Sequence

from ...cost_models.mesh import LogicalMesh
from ..analysis.fusion import FusedOperation
from ..analysis.user_shardings import CONSTRAINT, UserSpec, user_sharding
from ..ir import TensorType
from .layout import Layout, enumerate_layouts
from .strategies import Strategy

_LOG = logging.getLogger("meshwright")


def user_strategies(operation: FusedOperation, mesh: LogicalMesh) -> tuple[Strategy, ...] | None:
    """The strategies a user's sharding leaves, or None where the node has none or names another mesh.

    A ``with_sharding_constraint`` has one strategy for each layout of the dims it leaves open, a
    ``shard_map`` one, whose body runs on parts.
    """
    node = operation.anchor
    written = user_sharding(node)
    if written is None:
        return None
    if any(mesh.axis_names.count(n) == 0 or mesh.axis_size(n) != s for n, s in written.mesh.items() if s > 1):
        _LOG.warning(
            "the sharding at %s is for a mesh %s and the plan's is %s: it is ignored",
            node.source,
            dict(written.mesh),
            dict(zip(mesh.axis_names, mesh.shape, strict=True)),
        )
        return None
    (wires,) = operation.wires
    read = [
        (s, o.type) for s, o, w in zip(written.operands, node.operands, wires, strict=True) if w is not None
    ]
    operands = [list(_layouts(spec, type_, mesh)) for spec, type_ in read]
    if node.op == CONSTRAINT:
        return tuple(Strategy((layout,), (layout,), (1,)) for layout in operands[0])
    made = [(s, r.type) for s, r in zip(written.results, node.results, strict=True)]
    results = [list(_layouts(spec, type_, mesh)) for spec, type_ in made]
    chosen = itertools.product(*operands, *results)
    split = _shards([*itertools.chain(*operands, *results)], mesh.shape)
    return tuple(Strategy(c[: len(operands)], c[len(operands) :], (split,)) for c in chosen)


def _layouts(spec: UserSpec, type_: TensorType, mesh: LogicalMesh) -> Iterator[Layout]:
    fixed = [None if dim is None else tuple(map(mesh.axis_names.index, dim)) for dim in spec]
    if None not in fixed:
        yield Layout(tuple(dim or () for dim in fixed))
        return
    for layout in enumerate_layouts(type_.shape, mesh.shape):
        if all(want is None or want == have for want, have in zip(fixed, layout.dims, strict=True)):
            yield layout


def _shards(layouts: Sequence[Layout], mesh_shape: Sequence[int]) -> int:
    """A manual region's work is cut along every axis that its operands or results are split over."""
    return math.prod(mesh_shape[a] for a in {a for layout in layouts for a in layout.split_axes})
