"""A verification's report as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from ..verify.report import Cause, Communication, VerifyReport
from .plain import plain_text
from .tables import plain_table
from .units import format_bytes, format_percent, format_seconds, short_sources

_MOST_ROWS, _MOST_CAUSES, _MOST_PROBLEMS = 16, 3, 20


def format_report(report: VerifyReport, width: int = 100) -> str:
    """A report as plain text."""
    return plain_text(report_renderables(report), width)


def report_renderables(report: VerifyReport) -> list[RenderableType]:
    """The parts of a report's text, in order, for a ``rich`` console."""
    sections = (_head(report), _communication(report), _causes(report), _verdict(report))
    return [part for section in sections for part in (Text(), *section)][1:]


def _head(report: VerifyReport) -> Iterator[RenderableType]:
    yield Text.assemble(
        (report.program, "bold"), f" on {report.cluster}, compiled by {report.compiler} ",
        f"in {format_seconds(report.compile_s)}",
    )  # fmt: skip
    table = plain_table("", ">planned", ">compiled", "")
    memory = report.memory
    compiled = format_bytes(memory.compiled_bytes) if memory.compiled_bytes else "-"
    off = f"{_signed(memory.difference)}; " if memory.compiled_bytes else ""
    room = f"{off}a device has {format_bytes(memory.usable_bytes)}"
    table.add_row(Text("peak memory"), Text(format_bytes(memory.planned_bytes)), Text(compiled), Text(room))
    timing = report.timing
    table.add_row(
        Text("step time"),
        Text(format_seconds(timing.planned_s)),
        Text(_seconds(timing.compiled_s)),
        Text(timing.remark),
    )
    if timing.exposed_communication_s is not None:
        planned, exposed = timing.planned_communication_s, timing.exposed_communication_s
        table.add_row(
            Text("communication"), Text(format_seconds(planned)), Text(_seconds(exposed)), Text("not hidden")
        )
    yield table


def _communication(report: VerifyReport) -> Iterator[RenderableType]:
    if not report.communication:
        yield Text("no communication, planned or compiled")
        return
    table = plain_table("=collective", "=axes", ">planned", ">bytes", ">compiled", ">bytes", ">difference")
    for row in report.communication[:_MOST_ROWS]:
        cells = (row.kind, ",".join(row.axes), *_sides(row), _signed(row.difference))
        table.add_row(*map(Text, cells))
    yield table
    rest = len(report.communication) - _MOST_ROWS
    if rest > 0:
        yield Text(f"... {rest} more", style="dim")


def _sides(row: Communication) -> Iterator[str]:
    for count, size in (
        (row.planned_count, row.planned_bytes),
        (row.compiled_count, row.compiled_bytes),
    ):
        yield str(count) if count else "-"
        yield format_bytes(size) if size else "-"


def _causes(report: VerifyReport) -> Iterator[RenderableType]:
    """Where compiled communication comes from, with the user's lines."""
    table = plain_table("=compiled collective", ">count", ">bytes", "at", "in")
    for row in report.communication[:_MOST_ROWS]:
        for cause in row.compiled[:_MOST_CAUSES]:
            table.add_row(*map(Text, (f"{row.kind} {','.join(row.axes)}", *_cause(cause))))
    if table.row_count:
        yield table


def _cause(cause: Cause) -> Iterator[str]:
    yield str(cause.count)
    yield format_bytes(cause.bytes)
    yield short_sources(cause.source)
    yield cause.op


def _verdict(report: VerifyReport) -> Iterator[RenderableType]:
    for remark in report.remarks:
        yield Text(remark)
    problems: Sequence[str] = report.problems
    if not problems:
        yield Text("The compiled program is what was planned.", style="bold")
        return
    yield Text(f"{len(problems)} difference{'s' if len(problems) > 1 else ''}:", style="bold")
    for problem in problems[:_MOST_PROBLEMS]:
        yield Text(f"  {problem}")


def _signed(part: float) -> str:
    return f"{'+' if part >= 0 else '-'}{format_percent(abs(part))}"


def _seconds(time_s: float | None) -> str:
    return "-" if time_s is None else format_seconds(time_s)
