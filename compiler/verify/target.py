"""Which XLA compiler belongs to a cluster, and how it is told about devices that are not there."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ...cost_models import hardware_record
from ...cost_models.cluster import Cluster
from ..errors import UnsupportedError

_GPU_TARGETS = Path(hardware_record.__file__).resolve().parent / "hardware" / "gpu_targets"
# A host of TPUs has four chips in a square; a slice that is smaller in a dim has a smaller host.
_HOST_BOUNDS = (2, 2, 1)
# The H200 is the H100's die with other memory; XLA publishes no description of its own for it.
_SAME_DIE = {"h200": "h100"}


@dataclass(frozen=True)
class _Backend:
    """A compiler: JAX's platform name, the module that must be there, and what installs it."""

    platform: str
    module: str
    extra: str


_BACKENDS = {
    "tpu": _Backend("tpu", "libtpu", "tpu"),
    "gpu": _Backend("cuda", "jax_plugins.xla_cuda12", "gpu"),
}


class CompileTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A cluster as JAX's ahead-of-time compiler takes it.

    Attributes:
        platform: ``tpu`` or ``cuda``.
        topology: name or shape of the topology: ``v5e:2x4``, or slices x hosts x GPUs.
        num_devices: devices it must have.
        options: further arguments of the topology, by name.
    """

    platform: str
    topology: str
    num_devices: int
    options: dict[str, int | str | tuple[int, ...]]


def compile_target(cluster: Cluster) -> CompileTarget:
    """How to compile for a cluster.

    Args:
        cluster: what the plan is for.

    Raises:
        UnsupportedError: where there is no compiler for such devices, or it is not installed; the message
            says what installs it.
    """
    kind = cluster.hardware.kind
    if kind not in _BACKENDS:
        raise UnsupportedError(
            f"{cluster.name}: XLA for CPU says nothing about the communication and memory of an accelerator. "
            "Verify a plan for a TPU or GPU cluster, such as v5e:2x4 or h100:1x8."
        )
    backend = _BACKENDS[kind]
    made = _tpu(cluster) if kind == "tpu" else _gpu(cluster)
    if not _is_installed(backend.module):
        raise UnsupportedError(
            f"{cluster.name}: the {kind.upper()} compiler is not installed. Run "
            f"`pip install 'meshwright[{backend.extra}]'`; no {kind.upper()} is needed."
        )
    return made


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _tpu(cluster: Cluster) -> CompileTarget:
    name = cluster.hardware.name
    if name == "v4":
        raise UnsupportedError(
            f"{cluster.name}: the compiler describes a v4 chip as two devices, which programs see as one, so "
            "what it compiles is no such program. v5e, v5p and v6e can be verified."
        )
    if name not in ("v5e", "v5p", "v6e"):
        raise UnsupportedError(f"{cluster.name}: XLA's TPU compiler knows no {name}; it knows v5e, v5p, v6e.")
    padded = (*cluster.shape, 1, 1)[:3]
    bounds = tuple(min(most, size) for most, size in zip(_HOST_BOUNDS, padded, strict=True))
    options: dict[str, int | str | tuple[int, ...]] = {"chips_per_host_bounds": bounds}
    if cluster.num_slices > 1:
        options["num_slices"] = cluster.num_slices
    shape = "x".join(map(str, cluster.shape))
    return CompileTarget("tpu", f"{name}:{shape}", cluster.num_devices, options)


def _gpu(cluster: Cluster) -> CompileTarget:
    hardware = cluster.hardware
    described = _GPU_TARGETS / f"{_SAME_DIE.get(hardware.name, hardware.name)}.txtpb"
    if not described.is_file():
        known = sorted({*(p.stem for p in _GPU_TARGETS.glob("*.txtpb")), *_SAME_DIE})
        raise UnsupportedError(
            f"{cluster.name}: XLA's GPU compiler has no description of {hardware.name} here; it has of "
            f"{', '.join(known)}."
        )
    text = described.read_text(encoding="utf-8")
    # The chip is described in the file; its memory is the record's.
    text = re.sub(r"device_memory_size: \d+", f"device_memory_size: {hardware.total_memory_bytes}", text)
    text = re.sub(r"memory_bandwidth: \d+", f"memory_bandwidth: {int(hardware.memory_bandwidth)}", text)
    hosts, devices = cluster.shape
    return CompileTarget("cuda", f"1x{hosts}x{devices}", cluster.num_devices, {"target_config": text})
