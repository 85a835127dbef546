"""Random programs, planned on eight devices and on one: the short form of ``python -m benchmarks.fuzz``."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from benchmarks.fuzz import summarize
from benchmarks.fuzzing.cases import Case, cases
from benchmarks.fuzzing.check import Checker, Verdict
from benchmarks.fuzzing.reporter import describe, shrunk
from benchmarks.fuzzing.workers import Result

_SHRINK_S = 60.0
# Failures are made smaller as programs, which is faster than hypothesis can: it would run each again.
SHORT = settings(
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def checker() -> Checker:
    return Checker()


@pytest.mark.slow
@pytest.mark.usefixtures("devices")
@SHORT
@given(case=cases())
def test_planned_equals_one_device(checker: Checker, case: Case) -> None:
    outcome = checker.check(case)
    assert outcome.verdict != Verdict.UNUSABLE, describe(case, outcome)
    if outcome.verdict.is_failure:
        small = shrunk(checker, case, outcome, _SHRINK_S)
        pytest.fail(describe(small, checker.check(small)))


def test_rows_count_what_cases_have_and_how_they_end() -> None:
    results = [
        Result(0, "equal", "8", "value", frozenset({"add", "sort"}), frozenset({"all-gather"})),
        Result(1, "mismatch", "2x4", "gradient", frozenset({"add"}), frozenset()),
        Result(2, "crash", report="died"),
    ]
    rows = {
        (r.group, r.name): (r.num_cases, r.num_mismatches, r.num_crashes) for r in summarize(results, 1.0)
    }
    assert rows == {
        ("all", ""): (3, 1, 1),
        ("form", "gradient"): (1, 1, 0),
        ("form", "value"): (1, 0, 0),
        ("mesh", "2x4"): (1, 1, 0),
        ("mesh", "8"): (1, 0, 0),
        ("collective", "all-gather"): (1, 0, 0),
        ("collective", "none"): (1, 1, 0),
        ("primitive", "add"): (2, 1, 0),
        ("primitive", "sort"): (1, 0, 0),
    }
