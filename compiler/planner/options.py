"""What a user may ask of the planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ArgumentError

EFFORTS = (0, 1, 2, 3)


@dataclass(frozen=True)
class PlanOptions:
    """Options of one search.

    Attributes:
        mesh: the logical mesh to plan for: axis sizes, or sizes by axis name. None searches all shapes.
        pins: shardings that arguments must have, by pytree path or glob (``{"params/*/kernel": P(None,
            "model")}``).
        budget_bytes: memory of one device; None for what the cluster's devices have.
        effort: 0 (fast) to 3 (thorough): how finely the search decides, never what a plan costs.
        time_limit_s: seconds after which the best plan found so far is taken; None for no limit.
    """

    mesh: Sequence[int] | Mapping[str, int] | None = None
    pins: Mapping[str, Any] = field(default_factory=dict)
    budget_bytes: float | None = None
    effort: int = 2
    time_limit_s: float | None = None

    def __post_init__(self) -> None:
        problems = []
        if self.effort not in EFFORTS:
            problems.append(f"effort={self.effort!r} is not one of {EFFORTS}")
        if self.budget_bytes is not None and not self.budget_bytes > 0:
            problems.append(f"budget_bytes={self.budget_bytes!r} is not a positive number of bytes")
        if self.time_limit_s is not None and not self.time_limit_s > 0:
            problems.append(f"time_limit_s={self.time_limit_s!r} is not a positive number of seconds")
        if problems:
            raise ArgumentError("; ".join(problems))
