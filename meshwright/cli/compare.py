"""``meshwright compare``: what a cluster's record predicts beside what the devices at hand take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text
from typer import Option

from meshwright.compiler.display.tables import plain_table
from meshwright.compiler.display.units import format_bytes, format_seconds

from .calibrate import ENDED_EARLY, JSON_HELP, QUICK_HELP
from .output import print_json, print_result, progress, stdout_for_results

if TYPE_CHECKING:
    from rich.table import Table

    from meshwright.cost_models.calibration.comparison import Comparison
    from meshwright.runtime.calibration.calibrate import DeviceComparison

_CLUSTER = "The cluster whose record predicts: a name or FILE.toml. Left out, the devices at hand."


def compare(
    cluster: Annotated[str | None, Option("--cluster", "-c", metavar="CLUSTER", help=_CLUSTER)] = None,
    quick: Annotated[bool, Option("--quick", help=QUICK_HELP)] = False,
    json: Annotated[bool, Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Measure the devices at hand beside the seconds that the cost model predicts.

    Example: meshwright compare --cluster mine-8.toml
    """
    from meshwright.runtime.calibration.calibrate import compare_devices
    from meshwright.runtime.calibration.measure import FULL, QUICK

    with stdout_for_results(), progress("measuring") as report:
        result = compare_devices(cluster, QUICK if quick else FULL, report)
    if json:
        print_json(_json(result))
    else:
        print_result([_table(result.comparison), "", *_notes(result)])


def _table(result: Comparison) -> Table:
    table = plain_table("operation", ">size", ">predicted", ">measured", ">measured/predicted")
    for point in result.points:
        times = (format_seconds(point.predicted_s), format_seconds(point.measured_s))
        table.add_row(
            *map(Text, (point.operation, format_bytes(point.size_bytes), *times, f"{point.ratio:.3g}"))
        )
    return table


def _notes(result: DeviceComparison) -> list[str]:
    worst = result.comparison.worst
    notes = [
        f"{result.cluster.name}: median ratio {result.comparison.median_ratio:.3g}; worst {worst.ratio:.3g} "
        f"({worst.operation}, {format_bytes(worst.size_bytes)})."
    ]
    return [*notes, ENDED_EARLY] if result.sweep.ended_early else notes


def _json(result: DeviceComparison) -> dict[str, Any]:
    rows = [
        {
            "operation": point.operation,
            "size_bytes": point.size_bytes,
            "predicted_s": point.predicted_s,
            "measured_s": point.measured_s,
            "ratio": point.ratio,
        }
        for point in result.comparison.points
    ]
    return {
        "cluster": result.cluster.name,
        "ended_early": result.sweep.ended_early,
        "rows": rows,
        "median_ratio": result.comparison.median_ratio,
        "worst_ratio": result.comparison.worst_ratio,
    }
