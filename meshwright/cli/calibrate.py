"""``meshwright calibrate``: a hardware record from measurements on the devices at hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text
from typer import Option

from meshwright.compiler.display.tables import plain_table
from meshwright.cost_models.hardware_record import record_document

from .hardware_table import format_number, record_entries
from .output import print_json, print_result, progress, stdout_for_results

if TYPE_CHECKING:
    from rich.table import Table

    from meshwright.runtime.calibration.calibrate import Calibration

_OUTPUT = "Write the record to this file."
_BASE = (
    "Record whose numbers stay where nothing is measured: a name or FILE.toml. Left out, that of the devices."
)
QUICK_HELP = "Fewer sizes and repeats: seconds instead of minutes, and rougher."
JSON_HELP = "Print JSON."
ENDED_EARLY = "The time limit ended the sweep early; large sizes are missing."


def calibrate(
    output: Annotated[Path, Option("--output", "-o", metavar="FILE.toml", help=_OUTPUT, show_default=False)],
    base: Annotated[str | None, Option("--base", "-b", metavar="NAME", help=_BASE)] = None,
    quick: Annotated[bool, Option("--quick", help=QUICK_HELP)] = False,
    json: Annotated[bool, Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Measure the devices at hand and write a hardware record for them.

    Example: meshwright calibrate -o mine.toml
    """
    from meshwright.runtime.calibration import calibrate as runtime
    from meshwright.runtime.calibration.measure import FULL, QUICK

    runtime.check_output(output)
    with stdout_for_results(), progress("measuring") as report:
        result = runtime.calibrate(base, QUICK if quick else FULL, report)
    result.save(output)
    numbers = _numbers(record_document(base or result.cluster.hardware.name), result)
    if json:
        print_json(_json(result, numbers, output))
    else:
        print_result([_heading(result), _table(numbers), "", *_notes(result, output)])


def _numbers(base: Mapping[str, Any], result: Calibration) -> dict[str, tuple[Any, Any]]:
    """Base and new value of every measured number."""
    before, after = record_entries(base), record_entries(result.document)
    return {key: (before[key]["value"], after[key]["value"]) for key in before if key in result.fitted}


def _heading(result: Calibration) -> Text:
    devices, sweep = result.devices, result.sweep
    return Text(
        f"{devices.count} x {devices.kind}, jax {devices.jax_version}: {len(sweep.measurements)} of "
        f"{sweep.planned} points measured, median of {sweep.repeats}\n",
        style="bold",
    )


def _table(numbers: Mapping[str, tuple[Any, Any]]) -> Table:
    table = plain_table("number", ">base", ">fitted", ">fitted/base")
    for key, (before, after) in numbers.items():
        cells = (key, format_number(key, before), format_number(key, after), f"{after / before:.3g}")
        table.add_row(*map(Text, cells))
    return table


def _notes(result: Calibration, output: Path) -> list[str]:
    name, shape = result.cluster.hardware.name, list(result.cluster.shape)
    notes = [f"All other numbers are those of {name}."]
    if result.devices.count < 2:
        notes.append(f"One device has nothing to communicate with: collectives keep the figures of {name}.")
    if result.sweep.ended_early:
        notes.append(ENDED_EARLY)
    return [
        *notes,
        f'Written to {output}. A cluster file beside it: hardware = "{output.name}", shape = {shape}.',
    ]


def _json(result: Calibration, numbers: Mapping[str, tuple[Any, Any]], output: Path) -> dict[str, Any]:
    return {
        "output": str(output),
        "base": result.cluster.hardware.name,
        "device": result.devices.kind,
        "devices": result.devices.count,
        "jax": result.devices.jax_version,
        "repeats": result.sweep.repeats,
        "planned": result.sweep.planned,
        "collectives_measured": result.devices.count > 1,
        "ended_early": result.sweep.ended_early,
        "numbers": {key: {"base": before, "fitted": after} for key, (before, after) in numbers.items()},
        "measurements": [
            {"operation": m.point.series, "size_bytes": m.point.size_bytes, "seconds": m.seconds}
            for m in result.sweep.measurements
        ],
    }
