"""Reads a plan file named on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from meshwright.compiler.errors import PlanFormatError

if TYPE_CHECKING:
    from meshwright.compiler.plan import Plan


def load_plan_file(path: Path) -> Plan:
    """The plan of a file.

    Raises:
        PlanFormatError: where the file cannot be read or is no plan.
    """
    # Late, as it imports the plan's record.
    from meshwright.compiler.plan import Plan

    try:
        return Plan.load(path)
    except OSError as error:
        raise PlanFormatError(f"the plan file {path} cannot be read: {error.strerror or error}") from error
