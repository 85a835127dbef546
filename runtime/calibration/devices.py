"""The devices to measure: the default backend's, as a cluster of a base record or of the user's choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

from ...compiler.errors import CalibrationError
from ...cost_models.cluster import Cluster
from ...cost_models.hardware_record import hardware_names, load_hardware
from ..local_cluster import local_cluster

_KINDS = {"cuda": "gpu", "rocm": "gpu"}  # platforms that JAX calls by another name than records do


@dataclass(frozen=True)
class DeviceInfo:
    """What the measured devices are.

    Attributes:
        kind: their name in JAX.
        count: how many take part.
        jax_version: version of jax.
    """

    kind: str
    count: int
    jax_version: str


def device_info(cluster: Cluster) -> DeviceInfo:
    """What a cluster's devices are here."""
    return DeviceInfo(jax.devices()[0].device_kind, cluster.num_devices, jax.__version__)


def base_cluster(base: str | None) -> Cluster:
    """All local devices with a base record.

    Args:
        base: a hardware name or a record file; the shipped record of the devices' kind if None.

    Raises:
        CalibrationError: no such name, or a record of another kind than the devices.
        HardwareRecordError: a file that is no record.
        UnknownClusterError: no base is given and no shipped record is of these devices.
    """
    if base is None:
        return local_cluster()
    if base not in hardware_names() and not base.endswith(".toml"):
        names = ", ".join(hardware_names())
        raise CalibrationError(f"No hardware is called {base!r}: give one of {names}, or a record FILE.toml.")
    hardware = load_hardware(base)
    _check_kind(base, hardware.kind)
    return local_cluster(hardware)


def chosen_cluster(cluster: str | None) -> Cluster:
    """The cluster to compare with: all local devices if None.

    Raises:
        CalibrationError: of another kind than the devices, or more than there are.
        UnknownClusterError, HardwareRecordError: as `Cluster.load` does.
    """
    if cluster is None:
        return local_cluster()
    chosen = Cluster.load(cluster)
    _check_kind(cluster, chosen.hardware.kind)
    if chosen.num_devices > jax.device_count():
        raise CalibrationError(
            f"{cluster} has {chosen.num_devices} devices, but here are {_described(jax.devices())}. "
            "Compare with a cluster of as many or fewer."
        )
    return chosen


def _check_kind(name: str, kind: str) -> None:
    devices = jax.devices()
    here = _KINDS.get(devices[0].platform, devices[0].platform)
    if kind != here:
        raise CalibrationError(
            f"{name} is a record of a {kind}, but the devices here are of kind {here}: "
            f"{_described(devices)}. Name hardware of that kind; JAX_PLATFORMS chooses the devices."
        )


def _described(devices: Sequence[Any]) -> str:
    return f"{len(devices)} x {devices[0].device_kind}"
