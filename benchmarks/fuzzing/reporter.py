"""Describes failures, the first few of each kind made smaller before."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .cases import Case
from .check import Checker, Outcome, Verdict
from .shrink import shrink

_SHRUNK_PER_SYMPTOM = 2
_SILENT = (Verdict.EQUAL, Verdict.ILL_CONDITIONED)


@dataclass
class Reporter:
    """Describes failures.

    Attributes:
        checker: runs smaller cases.
        shrink_s: seconds for one failure; 0 leaves cases as they are.
    """

    checker: Checker
    shrink_s: float
    _seen: Counter[tuple[str, str, bool]] = field(default_factory=Counter)

    def describe(self, case: Case, outcome: Outcome) -> str:
        """A failure as text; empty for a case that is well.

        Args:
            case: the case as drawn.
            outcome: what came of it.
        """
        if outcome.verdict in _SILENT:
            return ""
        kind = _kind(outcome)
        self._seen[kind] += 1
        worth_it = outcome.verdict != Verdict.UNUSABLE and self._seen[kind] <= _SHRUNK_PER_SYMPTOM
        if self.shrink_s and worth_it:
            case = shrunk(self.checker, case, outcome, self.shrink_s)
            outcome = self.checker.check(case)
        return describe(case, outcome)


def shrunk(checker: Checker, case: Case, outcome: Outcome, time_limit_s: float) -> Case:
    """The smallest case found that fails like a given one.

    Args:
        checker: runs cases.
        case: fails.
        outcome: how it fails.
        time_limit_s: seconds to search.
    """

    def still_fails(smaller: Case) -> bool:
        found = checker.check(smaller)
        return _kind(found) == _kind(outcome)

    return shrink(case, still_fails, time_limit_s)


def _kind(outcome: Outcome) -> tuple[str, str, bool]:
    """Equal for failures that look alike."""
    return str(outcome.verdict), outcome.symptom, outcome.is_alike


def describe(case: Case, outcome: Outcome) -> str:
    """What went wrong, the program, the pins, the plan and the graph, as text."""
    plan = str(outcome.plan or "")
    alike = " (jax.jit alone, with the plan's outer shardings, fails alike)" if outcome.is_alike else ""
    parts = [f"{outcome.verdict}: {outcome.reason}{alike}", str(case), plan, outcome.ir, outcome.trace]
    return "\n".join(part for part in parts if part)
