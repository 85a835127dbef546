"""Logical meshes: named axes over a cluster's devices, and which links the groups of a set of axes use.

Devices are numbered in physical order (slices or hosts outermost, a torus row-major) and laid out row-major
over the logical shape. The groups of a set of axes vary those coordinates and keep the others. A group is
described by the numbers its collectives are priced with: members that share fast links, how many hosts or
slices it reaches, and on a torus its extent and stride along each dimension.
"""

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .cluster import Cluster
from .errors import InvalidMeshError

_AXIS_NAME = re.compile(r"[\w.-]+")
AXIS_NAMES = ("data", "model", "expert")
_MOST_SUGGESTED, _MOST_SUGGESTED_AXES = 4, 3


@dataclass(frozen=True)
class LogicalMesh:
    """A grid of named axes over all devices of a cluster.

    Attributes:
        cluster: the devices.
        shape: size of each axis; the product is `cluster.num_devices`.
        axis_names: one distinct name for each axis.
    """

    cluster: Cluster
    shape: tuple[int, ...]
    axis_names: tuple[str, ...]

    def __post_init__(self) -> None:
        problems = _mesh_problems(self)
        if problems:
            shape = "x".join(map(str, self.shape)) or "()"
            raise InvalidMeshError(
                f"Mesh {shape} ({', '.join(map(str, self.axis_names))}): " + "; ".join(problems) + "."
            )

    def axis_size(self, name: str) -> int:
        """Size of a named axis. Raises `InvalidMeshError` if there is none of that name."""
        if name not in self.axis_names:
            raise InvalidMeshError(f"No mesh axis {name!r}; the axes are {', '.join(self.axis_names)}.")
        return self.shape[self.axis_names.index(name)]

    def size(self, axes: Iterable[int]) -> int:
        """Number of devices in a group over a set of axes, given by index."""
        return math.prod(self.shape[axis] for axis in axes)

    def __str__(self) -> str:
        axes = ", ".join(f"{name}={size}" for name, size in zip(self.axis_names, self.shape, strict=True))
        return f"{self.cluster.name}[{axes}]"


def axis_problems(shape: Sequence[object], names: Sequence[object]) -> list[str]:
    """What is wrong with the axes of a mesh, whatever cluster it is for.

    Args:
        shape: size of each axis.
        names: name of each axis.

    Returns:
        One line for each fault; empty where sizes are positive whole numbers and names are distinct text.
    """
    problems = []
    if not len(shape):
        problems.append("a mesh needs at least one axis")
    if len(shape) != len(names):
        problems.append(f"{len(shape)} sizes but {len(names)} names")
    bad = [name for name in names if not isinstance(name, str)]
    if bad:
        problems.append(f"the axis name {bad[0]!r} is no text")
    odd = [name for name in names if isinstance(name, str) and not _AXIS_NAME.fullmatch(name)]
    if odd:
        problems.append(f"the axis name {odd[0]!r} is no word of letters, digits, '_', '-' and '.'")
    if len({repr(name) for name in names}) != len(names):
        problems.append("axis names must be distinct")
    broken = [size for size in shape if isinstance(size, bool) or not isinstance(size, int)]
    if broken:
        problems.append(f"the size {broken[0]!r} is no whole number")
    elif any(size < 1 for size in shape if isinstance(size, int)):
        problems.append("every axis needs at least one device")
    return problems


def _mesh_problems(mesh: LogicalMesh) -> list[str]:
    problems = axis_problems(mesh.shape, mesh.axis_names)
    if not problems and math.prod(mesh.shape) != mesh.cluster.num_devices:
        product, want = math.prod(mesh.shape), mesh.cluster.num_devices
        fitting = ", ".join("x".join(map(str, shape)) for shape in _fitting_shapes(want, len(mesh.shape)))
        problems.append(
            f"the sizes multiply to {product} but {mesh.cluster.name} has {want} devices: try {fitting}"
        )
    return problems


def _fitting_shapes(num_devices: int, rank: int) -> list[tuple[int, ...]]:
    """A few shapes that hold all devices: as many axes as asked for come first, then near-equal sizes."""
    counts = {*range(1, _MOST_SUGGESTED_AXES + 1), max(rank, 1)}
    shapes = [shape for count in counts for shape in _factorisations(num_devices, count)]
    shapes.sort(key=lambda s: (len(s) != rank, len(s), max(s) / min(s), s))
    return shapes[:_MOST_SUGGESTED]


@dataclass(frozen=True)
class TorusSpan:
    """Part of one torus dimension a group covers.

    Attributes:
        extent: members along the dimension.
        stride: distance in links between neighbouring members; as many interleaved groups share each link.
        wraps: whether the members close a ring.
    """

    extent: int
    stride: int
    wraps: bool


@dataclass(frozen=True)
class GroupLevels:
    """How the groups of a set of mesh axes lie on the cluster's links.

    Attributes:
        size: devices in a group.
        inner: of those, the devices joined by the fast links (same host, or same torus slice).
        outer: hosts or slices a group reaches.
        torus: spans of the inner members, longest first; empty where hosts are switched.
    """

    size: int
    inner: int
    outer: int
    torus: tuple[TorusSpan, ...] = ()


def group_levels(mesh: LogicalMesh, axes: Iterable[int]) -> GroupLevels:
    """Link levels of the groups over a set of axes.

    Args:
        mesh: the logical mesh.
        axes: axis indices; order and repetition do not matter, size-1 axes change nothing.

    Returns:
        The levels of the worst group: most hosts reached, members spread evenly over them.

    Raises:
        InvalidMeshError: an index is not an axis of the mesh.
    """
    kept = tuple(sorted(set(axes)))
    if any(not 0 <= axis < len(mesh.shape) for axis in kept):
        raise InvalidMeshError(f"Axes {kept} are not all in the mesh {mesh}.")
    return _group_levels(mesh.cluster, mesh.shape, kept)


@lru_cache(maxsize=65536)
def _group_levels(cluster: Cluster, shape: tuple[int, ...], axes: tuple[int, ...]) -> GroupLevels:
    size = math.prod(shape[axis] for axis in axes)
    devices = np.arange(math.prod(shape)).reshape(shape)
    others = [axis for axis in range(len(shape)) if axis not in axes]
    groups = devices.transpose(*others, *axes).reshape(-1, size)
    homes = np.sort(groups // cluster.inner_size, axis=-1)
    outer = 1 + int((np.diff(homes, axis=-1) != 0).sum(axis=-1).max(initial=0))
    inner = -(-size // outer)
    if cluster.hardware.torus is None:
        return GroupLevels(size, inner, outer)
    return GroupLevels(size, inner, outer, _spans(cluster, groups, inner))


def _spans(cluster: Cluster, groups: np.ndarray, inner: int) -> tuple[TorusSpan, ...]:
    """Torus spans of the group of the first device; a group that is no box is priced as one open line."""
    members = groups[0][groups[0] < cluster.inner_size]
    torus = cluster.hardware.torus
    if torus is None or inner == 1:
        return ()
    coords = np.unravel_index(members, cluster.shape)
    spans = [
        _span(sorted(set(line.tolist())), size, torus.wraps(size))
        for line, size in zip(coords, cluster.shape, strict=True)
    ]
    used = [span for span in spans if span.extent > 1]
    if math.prod(span.extent for span in used) != inner or not _same_form(cluster, groups):
        return (TorusSpan(inner, 1, wraps=False),)
    return tuple(sorted(used, key=lambda span: (-span.extent, span.stride, span.wraps)))


def _span(places: list[int], size: int, wraps: bool) -> TorusSpan:
    """Span of sorted coordinates; the ring closes only when the members reach all the way round."""
    stride = max((b - a for a, b in itertools.pairwise(places)), default=1)
    return TorusSpan(len(places), stride, wraps and len(places) * stride == size)


def _same_form(cluster: Cluster, groups: np.ndarray) -> bool:
    """Whether every group is a box of the same extents within each slice."""
    inner = groups % cluster.inner_size
    coords = np.stack(np.unravel_index(inner, cluster.shape))
    changes = np.diff(np.sort(coords, axis=-1), axis=-1) != 0
    extents = changes.sum(axis=-1)  # per dimension and group, less one
    return bool((extents == extents[:, :1]).all())


def default_axis_names(count: int) -> tuple[str, ...]:
    """Names of the axes of a mesh given by sizes alone: ``data``, ``model``, ``expert``, ``axis3``."""
    return AXIS_NAMES[:count] + tuple(f"axis{index}" for index in range(len(AXIS_NAMES), count))


def candidate_meshes(
    cluster: Cluster, max_axes: int = 3, min_axes: int = 1, *, ordered: bool = False
) -> tuple[LogicalMesh, ...]:
    """Mesh shapes worth searching: all ordered factorisations of the device count, cost-equivalent ones once.

    Args:
        cluster: the devices.
        max_axes: most axes, at least 1.
        min_axes: fewest axes.
        ordered: whether shapes stay that are equivalent but for the order of their axes.

    Returns:
        Meshes by number of axes, then lexicographic shape; every axis has size 2 or more (one device: one
        axis of 1). Two shapes are equivalent when renaming the axes maps every set of axes to groups on the
        same links.

    Raises:
        InvalidMeshError: `max_axes` is below 1.
    """
    if max_axes < 1:
        raise InvalidMeshError(f"A mesh needs at least one axis, not {max_axes}.")
    meshes: dict[object, LogicalMesh] = {}
    for count in range(min_axes, max_axes + 1):
        for shape in _factorisations(cluster.num_devices, count):
            mesh = LogicalMesh(cluster, shape, default_axis_names(count))
            meshes.setdefault(mesh.shape if ordered else _signature(mesh), mesh)
    return tuple(meshes.values())


def _factorisations(total: int, count: int) -> Iterator[tuple[int, ...]]:
    """Ordered factorisations into `count` factors of at least 2 (one factor: any), lexicographic."""
    if count == 1:
        yield (total,)
        return
    for first in range(2, total // 2 + 1):
        if total % first == 0 and total // first > 1:
            for rest in _factorisations(total // first, count - 1):
                yield (first, *rest)


def _signature(mesh: LogicalMesh) -> object:
    """Canonical form under renaming of axes: the smallest list of group levels over all axis orders."""
    rank = len(mesh.shape)
    subsets = [s for k in range(1, rank + 1) for s in itertools.combinations(range(rank), k)]
    levels = {frozenset(subset): repr(group_levels(mesh, subset)) for subset in subsets}
    orders = itertools.permutations(range(rank))
    return min(tuple(levels[frozenset(order[i] for i in s)] for s in subsets) for order in orders)
