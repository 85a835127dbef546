"""The cluster this process runs on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from ..compiler.errors import UnknownClusterError
from ..cost_models.cluster import Cluster
from ..cost_models.hardware_record import Hardware

# Substrings of ``device_kind`` as JAX reports them, most specific first.
_KINDS = {
    "H200": "h200",
    "H100": "h100",
    "A100": "a100",
    "B200": "b200",
    "TPU v5 lite": "v5e",
    "TPU v5e": "v5e",
    "TPU v5": "v5p",
    "TPU v6": "v6e",
    "TPU v4": "v4",
}


def local_cluster(hardware: Hardware | None = None) -> Cluster:
    """All devices of the default backend as a cluster.

    Args:
        hardware: record of the devices, where it is not the shipped one of their kind.

    Raises:
        UnknownClusterError: for a device kind without a hardware record.
    """
    devices = jax.devices()
    if hardware is not None:
        shape = _shape(devices)
        return Cluster(f"{hardware.name}:{shape}", hardware, tuple(map(int, shape.split("x"))))
    if devices[0].platform == "cpu":
        return Cluster.load(f"cpu:{len(devices)}")
    kind = devices[0].device_kind
    name = next((record for mark, record in _KINDS.items() if mark in kind), None)
    if name is None:
        raise UnknownClusterError(
            kind,
            "no hardware record is known for this device",
            (),
            "Give one: autoparallel(f, cluster='my.toml').",
        )
    return Cluster.load(f"{name}:{_shape(devices)}")


def _shape(devices: Sequence[Any]) -> str:
    coordinates = [getattr(d, "coords", None) for d in devices]
    if all(coordinates):
        extents = [len({c[i] for c in coordinates if c}) for i in range(len(coordinates[0] or ()))]
        return "x".join(str(e) for e in extents if e > 1) or "1x1"
    hosts = len({d.process_index for d in devices})
    return f"{hosts}x{len(devices) // hosts}"
