"""Which points are measured on a cluster: enough sizes to tell the constants of a record apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from ..cluster import Cluster
from ..collectives import Collective
from .points import CollectivePoint, ComputePoint, Operation, Point

Series = tuple[Point, ...]

_MEASURED_ITEM_BYTES = 4  # collectives move float32
_VECTOR_SHARE = 8  # arrays of vector operations are so much smaller: caches make no difference to them
_KIB, _MIB = 2**10, 2**20


@dataclass(frozen=True)
class _Sizes:
    """Sizes of a sweep.

    Attributes:
        dtypes: element types of products.
        small: products of so many tiles; they take the kernel floor.
        large: sizes of products that the matrix unit bounds.
        elements: of arrays too large for the caches.
        collective_bytes: from those that latency bounds to those that bandwidth does.
    """

    dtypes: tuple[str, ...]
    small: tuple[int, ...]
    large: tuple[int, ...]
    elements: tuple[int, ...]
    collective_bytes: tuple[int, ...]


_ALL_DTYPES = ("f32", "f32_default", "bf16", "f16")
_CPU = _Sizes(
    _ALL_DTYPES,
    small=(1, 2, 3),
    large=(128, 256, 512, 1024),
    elements=tuple(2**k for k in (18, 19, 20, 21, 22)),
    collective_bytes=tuple(4 * _KIB * 4**k for k in range(7)),
)
_QUICK_CPU = _Sizes(
    ("f32_default", "bf16"),
    small=(1, 2),
    large=(128, 256),
    elements=(2**18, 2**20),
    collective_bytes=(8 * _KIB, 128 * _KIB, 2 * _MIB),
)
_ACCELERATOR = _Sizes(
    _ALL_DTYPES,
    small=(1, 2, 3),
    large=(1024, 2048, 4096, 8192, 16384),
    elements=tuple(2**k for k in (26, 27, 28, 29)),
    collective_bytes=tuple(4 * _KIB * 4**k for k in range(10)),
)
_QUICK_ACCELERATOR = _Sizes(
    ("f32_default", "bf16"),
    small=(1, 2),
    large=(2048, 4096, 8192),
    elements=(2**26, 2**28),
    collective_bytes=(8 * _KIB, 128 * _KIB, 16 * _MIB, 256 * _MIB),
)


def sweep(cluster: Cluster, *, quick: bool = False) -> tuple[Series, ...]:
    """The series to measure on a cluster.

    Args:
        cluster: all of its devices take part.
        quick: fewer sizes, element types and groups.

    Returns:
        One series for each operation and element type, or kind of collective and group, by rising size. A
        cluster of one device has no collectives.
    """
    sizes = _sizes(cluster, quick)
    return (*_compute(sizes, cluster), *_collectives(sizes, cluster, quick))


def _sizes(cluster: Cluster, quick: bool) -> _Sizes:
    if cluster.hardware.kind == "cpu":
        return _QUICK_CPU if quick else _CPU
    return _QUICK_ACCELERATOR if quick else _ACCELERATOR


def _compute(sizes: _Sizes, cluster: Cluster) -> Iterator[Series]:
    tile = max(cluster.hardware.matmul_tile)
    products = sorted({*(tile * count for count in sizes.small), *sizes.large})
    for dtype in sizes.dtypes:
        yield tuple(ComputePoint(Operation.MATMUL, dtype, size) for size in products)
    for operation in (Operation.SCALE, Operation.ADD):
        yield tuple(ComputePoint(operation, "f32", size) for size in sizes.elements)
    yield tuple(ComputePoint(Operation.VECTOR, "f32", size // _VECTOR_SHARE) for size in sizes.elements)


def _collectives(sizes: _Sizes, cluster: Cluster, quick: bool) -> Iterator[Series]:
    for (shape, axes), kind in itertools.product(_groups(cluster, quick), Collective):
        size = CollectivePoint(kind, 0, shape, axes).group_size
        unit = _MEASURED_ITEM_BYTES * size * size  # every device's part of every device's part is whole
        rounded = sorted({-(-wanted // unit) * unit for wanted in sizes.collective_bytes})
        yield tuple(CollectivePoint(kind, count, shape, axes) for count in rounded)


def _groups(cluster: Cluster, quick: bool) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Meshes, and which of their axes communicate: all devices, then each level or torus dimension alone.

    One host of switched devices has one level; halves and pairs of it tell the latency of a step from that of
    the start. A quick sweep does without.
    """
    levels = (cluster.num_slices, *cluster.shape) if cluster.hardware.torus else cluster.shape
    shape = tuple(size for size in levels if size > 1)
    count = cluster.num_devices
    if not shape:
        return []
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((count,), (0,))]
    if len(shape) == 1 and count % 2 == 0 and count >= 4 and not quick:
        shape = (2, count // 2)
    if len(shape) > 1:
        groups += [(shape, (axis,)) for axis in range(len(shape))]
    return groups
