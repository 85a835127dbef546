"""A time limit that everything in one search shares."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Deadline:
    """A moment on a clock of seconds; the default is never reached.

    Attributes:
        end_s: the moment.
        clock: what tells the time, in seconds from any origin. Wall time, for that is what a user waits.
    """

    end_s: float = math.inf
    clock: Callable[[], float] = time.monotonic

    @staticmethod
    def after(limit_s: float | None, clock: Callable[[], float] = time.monotonic) -> Deadline:
        """The moment so many seconds from now; None for never."""
        return Deadline(math.inf if limit_s is None else clock() + limit_s, clock)

    def left_s(self) -> float | None:
        """Seconds until then, none below zero; None where there is no limit."""
        return None if math.isinf(self.end_s) else max(self.end_s - self.clock(), 0.0)

    def is_over(self) -> bool:
        """Whether the moment has come."""
        return self.left_s() == 0.0


NEVER = Deadline()
