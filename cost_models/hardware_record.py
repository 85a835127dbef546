"""Hardware records: versioned TOML files (one per device type) read into the frozen `Hardware` dataclass.

Every number stands beside its source: `usable_bytes = {value = 8.0e10, source = "..."}`. The hash covers the
numbers and not the source texts, so better wording never invalidates a plan. docs/clusters.md documents the
schema.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

from .errors import HardwareRecordError
from .hardware_schema import checked_values

_RECORDS = Path(__file__).resolve().parent / "hardware"

_DTYPE_KEYS = {
    "float64": "f64", "complex128": "f64", "float32": "f32_default", "complex64": "f32", "bfloat16": "bf16",
    "float16": "f16", "int8": "int8", "uint8": "int8", "int4": "int8", "uint4": "int8",
}  # fmt: skip


@dataclass(frozen=True)
class Link:
    """One link level: `bandwidth` in B/s per device (torus: per link) and direction, `alpha_s` per step."""

    bandwidth: float
    efficiency: float
    alpha_s: float

    @property
    def achieved_bandwidth(self) -> float:
        """Bandwidth a collective reaches, in B/s."""
        return self.bandwidth * self.efficiency


@dataclass(frozen=True)
class Torus:
    """Shape rules of a torus: rank, size whose multiples wrap around, further shapes, largest slice."""

    rank: int
    wrap_multiple: int
    small_shapes: tuple[tuple[int, ...], ...]
    max_devices: int

    def wraps(self, size: int) -> bool:
        """Whether a dimension of this size has its wrap-around link."""
        return size % self.wrap_multiple == 0

    def allows(self, shape: tuple[int, ...]) -> bool:
        """Whether a slice of this shape exists (in any orientation)."""
        if tuple(sorted(shape)) in {tuple(sorted(small)) for small in self.small_shapes}:
            return True
        total = 1
        for size in shape:
            total *= size
        return all(self.wraps(size) for size in shape) and total <= self.max_devices


@dataclass(frozen=True)
class Hardware:
    """Rates and sizes of one device type and of the links between such devices.

    Attributes:
        name: short name, the part of a cluster specification before the colon.
        kind: "cpu", "gpu" or "tpu".
        version: version of the record's numbers.
        peak: (key, FLOP/s) pairs; keys as in docs/clusters.md.
        matmul_efficiency, vector_efficiency, memory_efficiency: achieved fraction of the peaks.
        total_memory_bytes, usable_memory_bytes: per device.
        memory_bandwidth: B/s.
        kernel_floor_s: least time of a separate kernel. collective_floor_s: start-up of one collective.
        matmul_tile: (m, n, k) sizes a matrix unit pads to.
        inner: links inside a host (GPU) or a torus (TPU). outer: links between hosts or slices.
        host_devices: most devices of a host. torus: shape rules, or None for hosts of switched devices.
        title: full product name, for display (neither compared nor hashed).
    """

    name: str
    kind: str
    version: int
    peak: tuple[tuple[str, float], ...]
    matmul_efficiency: float
    vector_efficiency: float
    memory_efficiency: float
    total_memory_bytes: int
    usable_memory_bytes: int
    memory_bandwidth: float
    kernel_floor_s: float
    collective_floor_s: float
    matmul_tile: tuple[int, int, int]
    inner: Link
    outer: Link
    host_devices: int
    torus: Torus | None = None
    title: str = field(default="", compare=False)

    def peak_flops(self, dtype_name: str) -> float:
        """Peak matrix-multiply rate for a NumPy/JAX dtype name, FLOP/s.

        "float32" gives the rate at JAX's default precision (TF32 on GPUs, one bf16 pass on TPUs, by the
        `jax.lax.Precision` documentation); the keys of the record ("f32", "vector", ...) are accepted as
        well. Types no matrix unit takes (int32, bool, keys) get the vector rate.
        """
        peaks = dict(self.peak)
        if dtype_name in peaks:
            return peaks[dtype_name]
        if dtype_name.startswith("float8"):
            return peaks["f8"]
        return peaks[_DTYPE_KEYS.get(dtype_name, "vector")]

    @property
    def vector_flops(self) -> float:
        """Peak rate of the element-wise units, FLOP/s."""
        return self.peak_flops("vector")

    @property
    def hash(self) -> str:
        """SHA-256 (hex) of the numbers; stable across machines."""
        return _hash(self)


@lru_cache(maxsize=256)
def _hash(hardware: Hardware) -> str:
    numbers = {key: value for key, value in asdict(hardware).items() if key != "title"}
    content = json.dumps(numbers, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


def hardware_names() -> tuple[str, ...]:
    """Names of the shipped records, sorted."""
    return tuple(sorted(path.stem for path in _RECORDS.glob("*.toml")))


def load_hardware(name_or_path: str | PathLike[str], overrides: Mapping[str, Any] | None = None) -> Hardware:
    """Read a hardware record.

    Args:
        name_or_path: a name from `hardware_names()` or the path of a TOML file.
        overrides: numbers replacing those of the record, nested as in the file (`{"memory": {"usable_bytes":
            7e10}}`).

    Raises:
        HardwareRecordError: no such record, or the file breaks the schema; all problems are named.
    """
    path = _record_path(name_or_path)
    return _build(checked_values(_read(path), str(path), overrides or {}))


def record_document(name_or_path: str | PathLike[str]) -> dict[str, Any]:
    """A hardware record as its file has it, each number with its source.

    Args:
        name_or_path: a name from `hardware_names()` or the path of a TOML file.

    Raises:
        HardwareRecordError: as `load_hardware` does.
    """
    path = _record_path(name_or_path)
    document = _read(path)
    checked_values(document, str(path), {})
    return document


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise HardwareRecordError(str(path), [f"cannot be read ({error})"]) from error
    except tomllib.TOMLDecodeError as error:
        raise HardwareRecordError(str(path), [f"is not valid TOML ({error})"]) from error


def _record_path(name_or_path: str | PathLike[str]) -> Path:
    """Shipped record for a bare known name, else the path itself."""
    shipped = _RECORDS / f"{name_or_path}.toml"
    return shipped if str(name_or_path) in hardware_names() else Path(name_or_path)


def _build(values: Mapping[str, Any]) -> Hardware:
    """Dataclass from checked values keyed `section.key`."""
    return Hardware(
        name=values["name"],
        kind=values["kind"],
        version=values["version"],
        peak=tuple(
            (key.removeprefix("peak_flops."), value)
            for key, value in sorted(values.items())
            if key.startswith("peak_flops.")
        ),
        matmul_efficiency=values["efficiency.matmul"],
        vector_efficiency=values["efficiency.vector"],
        memory_efficiency=values["efficiency.memory"],
        total_memory_bytes=values["memory.total_bytes"],
        usable_memory_bytes=values["memory.usable_bytes"],
        memory_bandwidth=values["memory.bandwidth"],
        kernel_floor_s=values["kernel.floor_s"],
        collective_floor_s=values["kernel.collective_floor_s"],
        matmul_tile=values["kernel.matmul_tile"],
        inner=_link(values, "inner"),
        outer=_link(values, "outer"),
        host_devices=values["host.devices"],
        torus=_torus(values),
        title=values["title"],
    )


def _link(values: Mapping[str, Any], level: str) -> Link:
    return Link(*(values[f"link.{level}.{key}"] for key in ("bandwidth", "efficiency", "alpha_s")))


def _torus(values: Mapping[str, Any]) -> Torus | None:
    if "torus.rank" not in values:
        return None
    return Torus(
        rank=values["torus.rank"],
        wrap_multiple=values["torus.wrap_multiple"],
        small_shapes=values["torus.small_shapes"],
        max_devices=values["torus.max_devices"],
    )
