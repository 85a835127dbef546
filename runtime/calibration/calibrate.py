"""``meshwright calibrate`` and ``compare``, without their printing."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...compiler.errors import CalibrationError
from ...cost_models.calibration.comparison import Comparison, compare
from ...cost_models.calibration.fit import fitted_numbers
from ...cost_models.calibration.record_file import calibrated_document, record_text
from ...cost_models.cluster import Cluster
from ...cost_models.hardware_record import record_document
from .devices import DeviceInfo, base_cluster, chosen_cluster, device_info
from .measure import FULL, Effort, Progress, SweepResult, measure_sweep

_SUFFIX = ", calibrated"


@dataclass(frozen=True)
class Calibration:
    """A hardware record fitted to the devices at hand.

    Attributes:
        cluster: the devices, with the base record.
        devices: what they are.
        sweep: what was measured.
        document: the new record, as its file has it.
        fitted: dotted keys of the measured numbers; the others are the base's.
    """

    cluster: Cluster
    devices: DeviceInfo
    sweep: SweepResult
    document: Mapping[str, Any]
    fitted: tuple[str, ...]

    def save(self, path: Path) -> None:
        """Writes the record.

        Raises:
            CalibrationError: where the file cannot be written.
        """
        try:
            path.write_text(record_text(self.document), encoding="utf-8")
        except OSError as error:
            raise CalibrationError(f"{path} cannot be written: {error.strerror}.") from error


@dataclass(frozen=True)
class DeviceComparison:
    """The devices at hand beside what a record predicts.

    Attributes:
        cluster: whose record predicts.
        sweep: what was measured.
        comparison: both, point by point.
    """

    cluster: Cluster
    sweep: SweepResult
    comparison: Comparison


def check_output(path: Path) -> None:
    """Refuses an output before minutes are spent on measuring.

    Raises:
        CalibrationError: the name does not end in `.toml`, or there is no such folder.
    """
    if path.suffix != ".toml":
        raise CalibrationError(f"{path} does not end in .toml, by which clusters know a record file.")
    if not path.parent.is_dir():
        raise CalibrationError(f"{path} cannot be written: there is no folder {path.parent}.")
    if path.is_dir():
        raise CalibrationError(f"{path} cannot be written: it is a folder.")


def calibrate(
    base: str | None = None, effort: Effort = FULL, progress: Progress | None = None
) -> Calibration:
    """Fits a hardware record to the local devices.

    Args:
        base: name or file of the record whose numbers stay where nothing is measured; the shipped one of
            these devices if None.
        effort: how long to measure.
        progress: called with a line of text for each point.

    Raises:
        CalibrationError: the base is of another kind, or nothing could be measured.
    """
    cluster = base_cluster(base)
    result = _measured(cluster, effort, progress)
    numbers = fitted_numbers(result.measurements, cluster)
    info = device_info(cluster)
    document = calibrated_document(
        record_document(base or cluster.hardware.name),
        numbers,
        _source(info, result),
        f"{cluster.hardware.title.removesuffix(_SUFFIX)}{_SUFFIX}",
    )
    return Calibration(cluster, info, result, document, tuple(sorted(numbers)))


def compare_devices(
    cluster: str | None = None, effort: Effort = FULL, progress: Progress | None = None
) -> DeviceComparison:
    """Measures the local devices beside what a cluster's record predicts.

    Args:
        cluster: name or file; all local devices with their shipped record if None.
        effort: how long to measure.
        progress: called with a line of text for each point.

    Raises:
        CalibrationError: the cluster is of another kind or larger, or nothing could be measured.
    """
    chosen = chosen_cluster(cluster)
    result = _measured(chosen, effort, progress)
    return DeviceComparison(chosen, result, compare(result.measurements, chosen))


def _measured(cluster: Cluster, effort: Effort, progress: Progress | None) -> SweepResult:
    result = measure_sweep(cluster, effort, progress)
    if not result.measurements:
        raise CalibrationError(
            f"Nothing could be measured in {effort.limit_s:g} s: is the machine busy with other work?"
        )
    return result


def _source(info: DeviceInfo, result: SweepResult) -> str:
    today = datetime.date.today().isoformat()
    count = f"{info.count} device{'s' if info.count != 1 else ''}"
    return f"measured on {info.kind}, {count}, {today}, jax {info.jax_version}, median of {result.repeats}"
