"""What it takes to turn one layout of a value into another: collectives, seconds and the copy made.

Steps are taken in the order that moves least: slices first (free), then reduce-scatters of pending sums,
all-reduces of what remains pending, all-to-alls for axes that change dims, and all-gathers last. An axis
that comes in minor to one that changes dims takes the same way: the value is sliced where that axis comes
from, and both are exchanged together. Where a split axis that stays is not a major prefix any more, the parts
stand in another order on the devices and one permute is added. A replicated or split value never turns into a
partial sum.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...cost_models.collectives import Collective, collective_time_s
from ...cost_models.mesh import LogicalMesh
from ..ir import TensorType
from .layout import Axes, Layout, can_split


@dataclass(frozen=True)
class Step:
    """One collective of a reshard.

    Attributes:
        kind: which collective.
        axes: mesh axes of its groups.
        full_bytes: bytes of the array over one whole group, as ``collective_time_s`` counts them.
    """

    kind: Collective
    axes: Axes
    full_bytes: float


def reshard_steps(
    type_: TensorType, source: Layout, target: Layout, mesh_shape: Sequence[int]
) -> tuple[Step, ...] | None:
    """The collectives from one layout to another, or None where it is not possible.

    Args:
        type_: the whole value's type.
        source: layout at hand.
        target: layout wanted.
        mesh_shape: sizes of the mesh axes.
    """
    if source == target:
        return ()
    if not set(target.partial) <= set(source.partial):
        return None
    at, to = _places(source), _places(target)
    slices = _slice(type_.shape, source, target, mesh_shape)
    moved = [*(a for a in at if a in to and at[a] != to[a]), *slices.joined]
    scattered = [a for a in to if a in source.partial]
    if _is_padded(type_.shape, target, mesh_shape):
        # The partitioner makes no padded parts while it sums.
        scattered, slices = [], dataclasses.replace(slices, late=(*slices.late, *scattered))
    summed = [a for a in source.partial if a not in scattered and a not in target.partial]
    gathered = [a for a in at if a not in to]
    local = source.local_bytes(type_, mesh_shape) / _size(slices.early, mesh_shape)
    steps = []
    if scattered:
        steps.append(Step(Collective.REDUCE_SCATTER, tuple(scattered), local))
        local /= _size(scattered, mesh_shape)
    if summed:
        steps.append(Step(Collective.ALL_REDUCE, tuple(sorted(summed)), local))
    if moved:
        steps.append(Step(Collective.ALL_TO_ALL, tuple(sorted(moved)), local * _size(moved, mesh_shape)))
    local /= _size(slices.late, mesh_shape)
    if _reorders(type_.shape, source, target, mesh_shape) or _arrives_out_of_order(slices, source, target):
        axes = tuple(sorted({*at, *to}))
        steps.append(Step(Collective.PERMUTE, axes, local * _size(axes, mesh_shape)))
    # The partitioner gathers one dim after the other, the last one first.
    for dim in sorted({at[a] for a in gathered}, reverse=True):
        axes = tuple(sorted(a for a in gathered if at[a] == dim))
        local *= _size(axes, mesh_shape)
        steps.append(Step(Collective.ALL_GATHER, axes, local))
    return tuple(steps)


def reshard_stages(
    shape: Sequence[int], source: Layout, target: Layout, mesh_shape: Sequence[int]
) -> tuple[Layout, ...]:
    """The layouts a reshard goes through, the last being the target.

    First come slices and reductions, then exchanges between dims, then late slices and gathers. Each is a
    single step for XLA's partitioner, which replicates the whole array where it is asked for all of them at
    once (https://github.com/jax-ml/jax/issues/21562). A stage that pads a dim too much is left out.

    Args:
        shape: dim sizes of the whole value.
        source: layout at hand.
        target: layout wanted.
        mesh_shape: sizes of the mesh axes.
    """
    first = [list(dim) for dim in _slice(shape, source, target, mesh_shape).dims]
    before = []
    if set(source.partial) - set(target.partial) and _is_padded(shape, target, mesh_shape):
        before = [[list(dim) for dim in source.dims]]
    for axis, d in _places(target).items():
        if axis in source.partial:
            first[d].append(axis)
    stages = [*before, first, *_exchanges(first, target)]
    layouts = [Layout(tuple(map(tuple, x)), target.partial) for x in stages]
    kept = [x for x in layouts if x not in (source, target) and _fits(shape, x, mesh_shape)]
    return (*dict.fromkeys(kept), target)


def _is_padded(shape: Sequence[int], layout: Layout, mesh_shape: Sequence[int]) -> bool:
    return any(size % _size(dim, mesh_shape) for size, dim in zip(shape, layout.dims, strict=True))


def _fits(shape: Sequence[int], layout: Layout, mesh_shape: Sequence[int]) -> bool:
    parts = [_size(dim, mesh_shape) for dim in layout.dims]
    return all(can_split(size, n, padded=True) for size, n in zip(shape, parts, strict=True))


def reshard_time_s(type_: TensorType, source: Layout, target: Layout, mesh: LogicalMesh) -> float:
    """Seconds of a reshard; infinity where it is not possible."""
    steps = reshard_steps(type_, source, target, mesh.shape)
    if steps is None:
        return math.inf
    return sum(collective_time_s(s.kind, s.full_bytes, s.axes, mesh) for s in steps)


def copy_bytes_matrix(
    type_: TensorType, sources: Sequence[Layout], targets: Sequence[Layout], mesh_shape: Sequence[int]
) -> NDArray[np.float64]:
    """Bytes of the copy a reshard makes on each device.

    Zero where nothing is communicated: taking a slice is fused into what reads it.
    """
    kept = [(_places(t), t.partial) for t in targets]
    made = [t.local_bytes(type_, mesh_shape) for t in targets]

    def only_slices(source: Layout, target: Layout, places: dict[int, int], partial: Axes) -> bool:
        held = _places(source)
        stays = source.partial == partial and all(places.get(a) == d for a, d in held.items())
        return stays and not _reorders(type_.shape, source, target, mesh_shape)

    return np.array(
        [
            [0.0 if only_slices(s, t, *k) else b for t, k, b in zip(targets, kept, made, strict=True)]
            for s in sources
        ]
    )


@dataclass(frozen=True)
class _Slices:
    """Axes along which a value is to be sliced.

    Attributes:
        early: at once.
        joined: those of ``early`` that are sliced in another dim than the target's and change dims with an
            axis that is major to them.
        late: after the exchange, where the other dim cannot be cut.
        dims: axes of each dim after the early slices.
    """

    early: Axes
    joined: Axes
    late: Axes
    dims: tuple[Axes, ...]


def _slice(shape: Sequence[int], source: Layout, target: Layout, mesh_shape: Sequence[int]) -> _Slices:
    at = _places(source)
    dims = [list(dim) for dim in source.dims]
    early: list[int] = []
    joined: list[int] = []
    late: list[int] = []
    for d, dim in enumerate(target.dims):
        came_from = d  # where the axis before comes from
        for before, axis in zip((None, *dim), dim, strict=False):
            if axis in at or axis in source.partial:
                came_from = at.get(axis, d)
            elif came_from == d or _can_join(shape[came_from], dims[came_from], before, axis, mesh_shape):
                dims[came_from].append(axis)
                early.append(axis)
                joined += [axis] if came_from != d else []
            else:
                late.append(axis)
    return _Slices(tuple(early), tuple(joined), tuple(late), tuple(map(tuple, dims)))


def _arrives_out_of_order(slices: _Slices, source: Layout, target: Layout) -> bool:
    """Whether an axis that is sliced late should stand before one that was exchanged."""
    first = [list(dim) for dim in slices.dims]
    *_, last = first, *_exchanges(first, target)
    for dim, wanted in zip(last, target.dims, strict=True):
        ordered = [a for a in wanted if a not in source.partial]
        if [a for a in dim if a in ordered] + [a for a in ordered if a in slices.late] != ordered:
            return True
    return False


def _can_join(
    size: int, axes: Sequence[int], before: int | None, axis: int, mesh_shape: Sequence[int]
) -> bool:
    """Whether a dim can be cut once more, minor to the axis it is to follow."""
    return axes[-1:] == [before] and size % _size([*axes, axis], mesh_shape) == 0


def _exchanges(dims: list[list[int]], target: Layout) -> Iterator[list[list[int]]]:
    """Dims after each exchange: axes that stand in a row in both dims move together."""
    for d, wanted in enumerate(target.dims):
        rest = list(wanted)
        while rest:
            held = next((dim for e, dim in enumerate(dims) if e != d and rest[0] in dim), None)
            run = rest[: _common_run(held, rest) if held else 1]
            rest = rest[len(run) :]
            if held:
                dims = [[a for a in dim if a not in run] for dim in dims]
                dims[d] += run
                yield dims


def _common_run(held: Sequence[int], wanted: Sequence[int]) -> int:
    """How many axes of ``wanted``, from its first, stand in a row in ``held``."""
    tail = held[held.index(wanted[0]) :]
    pairs = zip(tail, wanted, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(tail), len(wanted)))


def _places(layout: Layout) -> dict[int, int]:
    return {axis: d for d, dim in enumerate(layout.dims) for axis in dim}


def _size(axes: Sequence[int], mesh_shape: Sequence[int]) -> int:
    return math.prod(mesh_shape[a] for a in axes)


def _reorders(shape: Sequence[int], source: Layout, target: Layout, mesh_shape: Sequence[int]) -> bool:
    """Whether slicing and gathering alone would leave parts on other devices than the target wants.

    New axes split what a device holds, so they come in as minor ones; gathering leaves a contiguous whole
    only of minor ones. Padded parts of different sizes begin at different places.
    """
    for size, before, after in zip(shape, source.dims, target.dims, strict=True):
        padded = size % _size(before, mesh_shape) or size % _size(after, mesh_shape)
        if padded and before and after and before != after:
            return True
        split = (*before, *(a for a in after if a not in before))
        kept = tuple(a for a in split if a in after)
        if kept and (split[: len(kept)] != kept or after != kept):
            return True
    return False
