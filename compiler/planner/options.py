"""What a user may ask of the planner."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from ...cost_models.notation import parse_bytes
from ..errors import ArgumentError, MeshwrightError
from .mesh_option import MeshLike, read_mesh
from .pin_option import PinLike, check_pinned_mesh, read_pins
from .templates.catalogue import TEMPLATES

EFFORTS = (0, 1, 2, 3)


@dataclass(frozen=True)
class PlanOptions:
    """Options of one search. Each may be given in any form named here, and is kept in one.

    Attributes:
        mesh: the logical mesh to plan for: axis sizes (``(2, 4)``, ``"2x4"``), sizes by axis name, or a JAX
            mesh, of which the axes count but not the order of devices. Kept as sizes by name. None searches
            all shapes.
        pins: shardings that arguments must have, by pytree path or glob (``{"params/*/kernel": P(None,
            "model")}``). A plain tuple stands for ``P(*tuple)``; a ``NamedSharding`` also fixes the mesh.
        budget_bytes: memory of one device, as a number or as text (``"16GiB"``); None for what the cluster's
            devices have.
        effort: 0 (fast) to 3 (thorough): how finely the search decides, never what a plan costs.
        time_limit_s: seconds of wall time after which the search takes the best plan so far, or the first
            that fits; what it finds then depends on the machine. Models are built whole, so one may pass it.
            None for no limit.
        template: name of an expert template that the plan has to keep to (``"fsdp"``); ``docs/templates.md``
            lists them. None for the cheapest plan, which is compared with all templates that apply.

    Raises:
        InvalidMeshError, PinError, ArgumentError: where an option has a wrong type or value; an
            `ArgumentError` that lists all where several have.
    """

    mesh: MeshLike | None = None
    pins: Mapping[str, PinLike] = field(default_factory=dict)
    budget_bytes: float | str | None = None
    effort: int = 2
    time_limit_s: float | None = None
    template: str | None = None

    def __post_init__(self) -> None:
        problems = []
        for name, read in _READERS.items():
            try:
                object.__setattr__(self, name, read(getattr(self, name)))
            except MeshwrightError as problem:
                problems.append(problem)
        if not problems and self.mesh is not None:
            check_pinned_mesh(read_pins(self.pins), read_mesh(self.mesh))
        if len(problems) == 1:
            raise problems[0]
        if problems:
            raise ArgumentError("; ".join(map(str, problems)))


def _read_budget(given: Any) -> float | None:
    try:
        size = parse_bytes(given) if isinstance(given, str) else given
    except ValueError as error:
        raise ArgumentError(f"budget_bytes={error}") from error
    if size is not None and not _is_positive(size):
        raise ArgumentError(
            f"budget_bytes={given!r} is no positive number of bytes; write a number, text such as '16GiB', "
            "or None for what the devices have"
        )
    return size if size is None else int(size) if isinstance(size, Integral) else float(size)


def _read_effort(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, Integral) or int(given) not in EFFORTS:
        raise ArgumentError(f"effort={given!r} is none of the whole numbers 0 (fast), 1, 2 and 3 (thorough)")
    return int(given)


def _read_time_limit(given: Any) -> float | None:
    if given is not None and not _is_positive(given):
        raise ArgumentError(
            f"time_limit_s={given!r} is no positive number of seconds; write a number, or None for no limit"
        )
    return None if given is None else float(given)


def _read_template(given: Any) -> str | None:
    if given is None or (isinstance(given, str) and given in TEMPLATES):
        return given
    near = difflib.get_close_matches(given, TEMPLATES, n=1) if isinstance(given, str) else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ArgumentError(f"template={given!r} is none of the templates {', '.join(TEMPLATES)}{hint}")


def _is_positive(number: Any) -> bool:
    """Whether it is a positive finite real number of any type, NumPy's too, and no boolean."""
    is_real = isinstance(number, Real) and not isinstance(number, bool)
    return is_real and math.isfinite(number) and float(number) > 0


_READERS: dict[str, Callable[[Any], Any]] = {
    "mesh": lambda given: None if given is None else read_mesh(given),
    "pins": read_pins,
    "budget_bytes": _read_budget,
    "effort": _read_effort,
    "time_limit_s": _read_time_limit,
    "template": _read_template,
}
