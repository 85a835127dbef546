"""``meshwright clusters``: the hardware that can be planned for, and where each number comes from."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer
from rich.table import Table

from meshwright.compiler.display.tables import plain_table
from meshwright.cost_models.hardware_record import Hardware, hardware_names, load_hardware

from .hardware_table import describe_hardware
from .output import print_json, print_result

_PEAKS = ("f64", "f32", "f32_default", "bf16", "f16", "f8", "int8")


def clusters(
    name: Annotated[
        str | None, typer.Argument(help="One of the names: every number with its source.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the hardware to plan for, or every number of one record with its source.

    Example: meshwright clusters h100
    """
    if name is None:
        _list(json)
    else:
        describe_hardware(name, json)


def _list(as_json: bool) -> None:
    records = [load_hardware(name) for name in hardware_names()]
    if as_json:
        print_json([{**dataclasses.asdict(record), "peak": dict(record.peak)} for record in records])
    else:
        print_result([_table(records), "", _NOTE])


_NOTE = (
    "Peaks in TFLOP/s, dense; f32* at JAX's default precision. Memory is what a plan may use. Links per "
    "device and direction: inner within a host or along one torus link, outer between hosts or slices. "
    "Host: devices of one. Name a cluster h100:2x8 (hosts x devices) or v5e:4x4 (torus)."
)
_COLUMNS = ("memory\nGiB", "memory\nTB/s", "inner\nGB/s", "outer\nGB/s", "host")


def _table(records: list[Hardware]) -> Table:
    headers = (*(f"\n{peak.replace('_default', '*')}" for peak in _PEAKS), *_COLUMNS)
    table = plain_table("\nname", *(f">{header}" for header in headers))
    for record in records:
        table.add_row(
            record.name,
            *(_number(record.peak_flops(peak) / 1e12) for peak in _PEAKS),
            _number(record.usable_memory_bytes / 2**30),
            _number(record.memory_bandwidth / 1e12),
            _number(record.inner.bandwidth / 1e9),
            _number(record.outer.bandwidth / 1e9),
            f"{record.torus.rank}-D torus" if record.torus else str(record.host_devices),
        )
    return table


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
