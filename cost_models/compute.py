r"""Seconds of one operation on one device: a roofline with achieved efficiencies and a kernel floor.

    t = max( flops / (e_c P u) , bytes / (e_m W) ) + f

P is the matrix-unit peak of the dtype for products and convolutions and the vector peak otherwise, e_c and
e_m the record's achieved fractions, W the memory bandwidth, u the tile utilisation, f the kernel floor (0 for
an operation fused into its neighbour). The roofline is Williams, Waterman and Patterson, "Roofline" (2009);
the efficiencies and the floor come from the hardware record, each with its source there.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from .hardware_record import Hardware


class OpKind(StrEnum):
    """Which unit an operation runs on."""

    MATMUL = "matmul"
    CONVOLUTION = "convolution"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    DATA_MOVEMENT = "data_movement"
    OPAQUE = "opaque"


_MATRIX_KINDS = frozenset({OpKind.MATMUL, OpKind.CONVOLUTION})


@dataclass(frozen=True)
class OpCost:
    """Work of one operation on its local shard.

    Attributes:
        flops: floating-point operations; a multiply-add counts as two.
        bytes: bytes read from and written to device memory.
        dtype: dtype name of the operands, such as "bfloat16".
        kind: which unit does it.
    """

    flops: float
    bytes: float
    dtype: str
    kind: OpKind

    def __post_init__(self) -> None:
        for name, value in (("flops", self.flops), ("bytes", self.bytes)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be finite and not negative, got {value!r}")


def compute_time_s(
    cost: OpCost, hardware: Hardware, *, fused: bool = False, tile_utilisation: float = 1.0
) -> float:
    """Seconds an operation takes on one device.

    Args:
        cost: the local work.
        hardware: the device.
        fused: no kernel of its own, so no floor.
        tile_utilisation: fraction of the matrix unit doing useful work, from `matmul_efficiency`; in (0, 1].

    Returns:
        Seconds; 0 where there is no work at all.

    Raises:
        ValueError: `tile_utilisation` is outside (0, 1].
    """
    if not 0 < tile_utilisation <= 1:
        raise ValueError(f"tile_utilisation must be in (0, 1], got {tile_utilisation!r}")
    if cost.flops == 0 and cost.bytes == 0:
        return 0.0
    rate = _flops_rate(cost, hardware) * (tile_utilisation if cost.kind in _MATRIX_KINDS else 1.0)
    memory_rate = hardware.memory_efficiency * hardware.memory_bandwidth
    floor_s = 0.0 if fused else hardware.kernel_floor_s
    return max(cost.flops / rate, cost.bytes / memory_rate) + floor_s


def _flops_rate(cost: OpCost, hardware: Hardware) -> float:
    """Achieved FLOP/s before tile effects."""
    if cost.kind in _MATRIX_KINDS:
        return hardware.matmul_efficiency * hardware.peak_flops(cost.dtype)
    return hardware.vector_efficiency * hardware.vector_flops


def matmul_efficiency(m: int, n: int, k: int, hardware: Hardware) -> float:
    """Tile utilisation of an (m, k) x (k, n) product: useful work over padded work, in (0, 1].

    Each size is padded to the matrix unit's tile (`hardware.matmul_tile`). Either operand may be the
    stationary one, so the better of the two orientations counts.

    Raises:
        ValueError: a size is below 1.
    """
    if min(m, n, k) < 1:
        raise ValueError(f"sizes must be at least 1, got {(m, n, k)}")
    tile_m, tile_n, tile_k = hardware.matmul_tile
    depth = _filled(k, tile_k)
    return depth * max(_filled(m, tile_m) * _filled(n, tile_n), _filled(n, tile_m) * _filled(m, tile_n))


def _filled(size: int, tile: int) -> float:
    return size / (-(-size // tile) * tile)
