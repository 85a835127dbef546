"""All numbers of a record that measurements determine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..cluster import Cluster
from .collective_fit import fit_collectives
from .compute_fit import fit_compute
from .points import Measurement

_FLOOR = "kernel.floor_s"


def fitted_numbers(measurements: Sequence[Measurement], cluster: Cluster) -> dict[str, float]:
    """Fits a hardware record.

    Args:
        measurements: of the points that `sweep` lists for the cluster, or of some of them.
        cluster: the devices measured, with the base record.

    Returns:
        Values by dotted key, in the units of docs/clusters.md. Numbers that nothing measured bears on are
        absent.
    """
    compute = fit_compute(measurements, cluster.hardware)
    floor_s = compute.get(_FLOOR, cluster.hardware.kernel_floor_s)
    priced = replace(cluster, hardware=replace(cluster.hardware, kernel_floor_s=floor_s))
    return compute | fit_collectives(measurements, priced)


def nested(numbers: Mapping[str, float]) -> dict[str, Any]:
    """Numbers by dotted key as the nested tables that `load_hardware` takes as overrides."""
    tables: dict[str, Any] = {}
    for key, value in numbers.items():
        *path, last = key.split(".")
        table = tables
        for part in path:
            table = table.setdefault(part, {})
        table[last] = value
    return tables
