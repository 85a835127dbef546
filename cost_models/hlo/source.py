"""Where an instruction came from: `metadata={...}`, and the stack-frame tables newer printers write."""

from __future__ import annotations

from collections.abc import Mapping

from .tokens import fields, unquote

_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")


class FrameTables:
    """The tables of a module's head: numbered files, places in them, and frames that name their caller.

    One frame reads `12 {file_location_id=5 parent_frame_id=12}`: the printer writes a caller's number one too
    high, and 1 for none. Tables in which no frame names itself or a later one are taken as they stand.
    """

    def __init__(self) -> None:
        self._table = ""
        self._rows: dict[str, dict[int, str]] = {table: {} for table in _TABLES}
        self._shift: int | None = None

    def add(self, line: str) -> None:
        """Take one line of the head; a line that belongs to no table is read over."""
        number, _, row = line.strip().partition(" ")
        if number in _TABLES:
            self._table = number
        elif self._table and number.isdigit():
            self._rows[self._table][int(number)] = row

    def frames(self, metadata: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
        """(file, line) from the innermost frame outwards; empty where the printer left none."""
        if "source_file" in metadata:
            return ((metadata["source_file"], int(metadata.get("source_line", 0))),)
        found: list[tuple[str, int]] = []
        frame, before = int(metadata.get("stack_frame_id", 0)), 0
        while frame in self._rows["StackFrames"] and frame != before:
            row = fields(self._rows["StackFrames"][frame])
            found.append(self._place(int(row.get("file_location_id", 0))))
            frame, before = int(row.get("parent_frame_id", 0)) - self._caller_shift(), frame
        return tuple(found)

    def _place(self, location: int) -> tuple[str, int]:
        row = fields(self._rows["FileLocations"].get(location, ""))
        name = self._rows["FileNames"].get(int(row.get("file_name_id", 0)), "")
        return unquote(name), int(row.get("line", 0))

    def _caller_shift(self) -> int:
        if self._shift is None:
            rows = self._rows["StackFrames"].items()
            self._shift = int(
                any(int(fields(row).get("parent_frame_id", 0)) >= number for number, row in rows)
            )
        return self._shift
