"""Reads the option ``plan``: a plan made before, which takes the place of a search."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..compiler.errors import ArgumentError
from ..compiler.plan import Plan

# Options of a search, which a given plan makes useless.
SEARCHING: tuple[str, ...] = ("mesh", "pins", "budget_bytes", "time_limit_s", "template")


def _is_empty(option: Any) -> bool:
    return isinstance(option, Mapping) and not option


def given_plan(plan: Any, searching: Mapping[str, Any]) -> Plan | None:
    """The plan that the option ``plan`` names.

    Args:
        plan: a plan, the path of its file, or None.
        searching: the options of a search, by name.

    Raises:
        ArgumentError: where it is none of these, cannot be read, or stands beside options of a search.
        PlanFormatError: where the file is no whole plan file.
    """
    asked = [f"{name}=" for name, value in searching.items() if value is not None and not _is_empty(value)]
    if plan is not None and asked:
        raise ArgumentError(
            "plan= fixes mesh, shardings and memory already, and nothing is searched: leave out "
            f"{' and '.join(asked)}, or plan anew without plan=."
        )
    if plan is None or isinstance(plan, Plan):
        return plan
    if isinstance(plan, str | os.PathLike):
        return _loaded(plan)
    raise ArgumentError(f"plan={plan!r} is no plan: give a Plan, or the path of a plan file.")


def _loaded(path: str | os.PathLike[str]) -> Plan:
    try:
        return Plan.load(path)
    except OSError as error:
        raise ArgumentError(f"plan={os.fspath(path)!r} cannot be read: {error.strerror or error}.") from error
