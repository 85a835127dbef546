r"""Seconds of a collective over a set of mesh axes: latency and bandwidth per link level, then combined.

Notation: a group has n = m h devices, m joined by fast links (one host or torus slice) and h hosts or slices;
B is the full (gathered) size in bytes; W_i, W_o the achieved bandwidth of the fast and slow links in B/s;
a_i, a_o their latency. All times add the start-up floor of one collective.

All-gather, reduce-scatter (a host: recursive doubling; between hosts: ring; chunks pipeline, so latencies add
while the slowest level sets the rate, as in NCCL's multi-channel rings):

    a_i ceil(log2 m) + a_o (h-1) + max( B (m-1)/m / W_i , B/m (h-1)/h / W_o )

The slow level carries B/m because every member of a host moves its own share over its own NIC.

All-reduce: reduce-scatter + all-gather; the slow level takes a tree instead if that is faster, with latency
2 a_o ceil(log2 h) for 2 a_o (h-1) and bytes 2 B/m for 2 B/m (h-1)/h.

All-to-all (each device holds B/n and sends B/n^2 to every other; messages for one host are aggregated):

    a_i ceil(log2 m) + a_o (h-1) + max( B/n (m-1)/n / W_i , B/n (n-m)/n / W_o )

Permute: a + B/n / W of the slowest level in the group.

Torus (replaces the fast level). A span of extent e and stride s has bandwidth w = W_i/s, twice that when it
wraps (both directions of the ring), and latency a_i times its hops (s(e-1), half when it wraps).

- All-gather and reduce-scatter split the data over all spans and run them in rotated order, so their rates
  add: B (m-1)/m / sum(w), a bound the bucket algorithm comes near when the spans are balanced.
- All-to-all is limited by the narrowest bisection: cutting a span of extent e, floor(e/2) ceil(e/2)/e^2 of B
  crosses m/e parallel lines. Max over spans of B floor(e/2) ceil(e/2)/e^2 (e/m) / w; on one ring this is the
  bytes times n/4 rule.
- Permute is a shift to the next member.

Sources: the alpha-beta model and recursive doubling, Thakur, Rabenseifner and Gropp, "Optimization of
collective communication operations in MPICH" (2005); tree and per-level latencies, NCCL src/graph/tuning.cc;
torus rules, "How To Scale Your Model", Sharded Matrices.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from .hardware_record import Hardware, Link
from .mesh import GroupLevels, LogicalMesh, TorusSpan, group_levels


class Collective(StrEnum):
    """Kinds of communication among the devices of a group."""

    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_REDUCE = "all-reduce"
    ALL_TO_ALL = "all-to-all"
    PERMUTE = "collective-permute"


@dataclass(frozen=True)
class _Time:
    """Latency, and the time each of the two levels is busy moving bytes, in seconds."""

    latency_s: float
    inner_s: float
    outer_s: float

    @property
    def total_s(self) -> float:
        return self.latency_s + max(self.inner_s, self.outer_s)


def collective_time_s(kind: Collective, full_bytes: float, axes: tuple[int, ...], mesh: LogicalMesh) -> float:
    """Seconds one collective takes when every group over `axes` runs it at once.

    Args:
        kind: the operation.
        full_bytes: bytes of the array one group sees unsharded along `axes` (each device holds `full_bytes`/n
            of it where it is sharded). ALL_REDUCE: the bytes every device holds. ALL_TO_ALL and PERMUTE: the
            bytes of the array over the whole group.
        axes: mesh axis indices, as a set.
        mesh: the logical mesh.

    Returns:
        Seconds; 0 for a group of one device or no bytes.

    Raises:
        ValueError: `full_bytes` is negative or not finite.
        InvalidMeshError: an index is not an axis of the mesh.
    """
    if not (math.isfinite(full_bytes) and full_bytes >= 0):
        raise ValueError(f"full_bytes must be finite and not negative, got {full_bytes!r}")
    levels = group_levels(mesh, axes)
    if levels.size == 1 or full_bytes == 0:
        return 0.0
    hardware = mesh.cluster.hardware
    return hardware.collective_floor_s + _price(Collective(kind), full_bytes, levels, hardware)


def _price(kind: Collective, full_bytes: float, levels: GroupLevels, hardware: Hardware) -> float:
    if kind is Collective.ALL_REDUCE:
        return _all_reduce_s(full_bytes, levels, hardware)
    if kind is Collective.ALL_TO_ALL:
        return _all_to_all(full_bytes, levels, hardware).total_s
    if kind is Collective.PERMUTE:
        return _permute_s(full_bytes, levels, hardware)
    return _gather(full_bytes, levels, hardware).total_s


def _gather(full_bytes: float, levels: GroupLevels, hardware: Hardware) -> _Time:
    """All-gather; a reduce-scatter takes as long."""
    inner_share = full_bytes * (levels.inner - 1) / levels.inner
    outer_share = full_bytes / levels.inner * (levels.outer - 1) / levels.outer
    return _Time(
        _inner_latency_s(levels, hardware.inner) + hardware.outer.alpha_s * (levels.outer - 1),
        inner_share / _gather_bandwidth(levels, hardware.inner),
        outer_share / hardware.outer.achieved_bandwidth,
    )


def _all_reduce_s(full_bytes: float, levels: GroupLevels, hardware: Hardware) -> float:
    """The cheaper of ring and tree between hosts; inside a host both have the same cost."""
    ring = _gather(full_bytes, levels, hardware)
    tree = _Time(
        _inner_latency_s(levels, hardware.inner) + hardware.outer.alpha_s * _steps(levels.outer),
        ring.inner_s,
        full_bytes / levels.inner / hardware.outer.achieved_bandwidth if levels.outer > 1 else 0.0,
    )
    return 2 * min(ring.total_s, tree.total_s)


def _all_to_all(full_bytes: float, levels: GroupLevels, hardware: Hardware) -> _Time:
    per_peer = full_bytes / levels.size**2
    inner_s = per_peer * (levels.inner - 1) / hardware.inner.achieved_bandwidth
    if levels.torus:
        inner_s = max(_bisection_s(full_bytes, span, levels, hardware.inner) for span in levels.torus)
    return _Time(
        _inner_latency_s(levels, hardware.inner) + hardware.outer.alpha_s * (levels.outer - 1),
        inner_s,
        per_peer * (levels.size - levels.inner) / hardware.outer.achieved_bandwidth,
    )


def _bisection_s(full_bytes: float, span: TorusSpan, levels: GroupLevels, link: Link) -> float:
    """Time to push an all-to-all through the cut that halves one span.

    Each slice of a group of several exchanges 1/`outer`^2 of the pairs inside itself.
    """
    half = span.extent // 2
    crossing = full_bytes / levels.outer**2 * half * (span.extent - half) / span.extent**2
    lines = levels.inner / span.extent
    return crossing / lines / _span_bandwidth(span, link)


def _permute_s(full_bytes: float, levels: GroupLevels, hardware: Hardware) -> float:
    """One message of the local size over the slowest level of the group."""
    if levels.outer > 1:
        link, bandwidth, hops = hardware.outer, hardware.outer.achieved_bandwidth, 1
    else:
        stride = max((span.stride for span in levels.torus), default=1)
        link, bandwidth, hops = hardware.inner, hardware.inner.achieved_bandwidth / stride, stride
    return link.alpha_s * hops + full_bytes / levels.size / bandwidth


def _inner_latency_s(levels: GroupLevels, link: Link) -> float:
    if levels.torus:
        return link.alpha_s * sum(_hops(span) for span in levels.torus)
    return link.alpha_s * _steps(levels.inner)


def _gather_bandwidth(levels: GroupLevels, link: Link) -> float:
    """B/s a device takes in during an all-gather over the fast links."""
    if levels.torus:
        return sum(_span_bandwidth(span, link) for span in levels.torus)
    return link.achieved_bandwidth


def _span_bandwidth(span: TorusSpan, link: Link) -> float:
    return link.achieved_bandwidth * (2 if span.wraps else 1) / span.stride


def _hops(span: TorusSpan) -> int:
    return span.stride * (span.extent // 2 if span.wraps else span.extent - 1)


def _steps(members: int) -> int:
    """ceil(log2), exactly."""
    return (members - 1).bit_length()
