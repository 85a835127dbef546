"""Plan files: JSON with a format name, a version and a checksum around the plan's record."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from pathlib import Path

import msgspec

from ..errors import PlanFormatError
from .plan import FORMAT, OLDEST_VERSION, VERSION, Plan


class _Header(msgspec.Struct, frozen=True):
    """What can be read of a plan file of any version."""

    format: str
    version: int
    checksum: str
    plan: msgspec.Raw


def save_plan(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Writes a plan file; see ``Plan.save``."""
    body = msgspec.json.encode(plan)
    header = _Header(FORMAT, VERSION, hashlib.sha256(body).hexdigest(), msgspec.Raw(body))
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not target.absolute().parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(target.parent))
    # A reader never sees half a file: write beside it, then rename.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        written = Path(folder) / target.name
        written.write_bytes(msgspec.json.encode(header) + b"\n")
        written.replace(target)


def load_plan(path: str | os.PathLike[str]) -> Plan:
    """Reads a plan file; see ``Plan.load``."""
    content = Path(path).read_bytes()
    try:
        header = msgspec.json.decode(content, type=_Header)
    except msgspec.DecodeError as error:
        raise PlanFormatError(f"{path} is not a whole plan file ({error}). Save the plan again.") from error
    if header.format != FORMAT:
        raise PlanFormatError(f"{path} is of format {header.format!r}, not a meshwright plan.")
    if not OLDEST_VERSION <= header.version <= VERSION:
        raise PlanFormatError(
            f"{path} is a plan of version {header.version}; this meshwright reads "
            f"versions {OLDEST_VERSION} to {VERSION}. "
            "Plan again, or use the meshwright version that made it."
        )
    body = bytes(header.plan)
    if hashlib.sha256(body).hexdigest() != header.checksum:
        raise PlanFormatError(
            f"{path} was altered after it was saved (its checksum does not match). Save the plan again."
        )
    try:
        return msgspec.json.decode(body, type=Plan)
    except msgspec.ValidationError as error:
        raise PlanFormatError(f"{path} does not follow the plan schema: {error}") from error


def plan_schema() -> dict[str, object]:
    """The JSON schema of a plan's record."""
    return msgspec.json.schema(Plan)
