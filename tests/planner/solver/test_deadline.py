"""What the solver does when its time is over, and what it leaves out because nobody asks for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from meshwright.compiler.planner.solver import (
    InfeasibleBudget,
    SolveOptions,
    Usage,
    backend,
    make_problem,
    solve,
)
from meshwright.compiler.planner.solver.backend import Limits
from meshwright.compiler.planner.solver.deadline import NEVER, Deadline
from meshwright.compiler.planner.solver.exact import least_exact
from meshwright.compiler.planner.solver.least import Lean, Target
from meshwright.compiler.planner.solver.preprocess import preprocess
from meshwright.compiler.planner.solver.search import Search

from .synthetic import Shape, training_step
from .test_backend import knapsack

OVER = Deadline(0.0, lambda: 1.0)


def test_time_left() -> None:
    now = [10.0]
    deadline = Deadline.after(5.0, lambda: now[0])
    assert (deadline.left_s(), deadline.is_over()) == (5.0, False)
    now[0] = 16.0
    assert (deadline.left_s(), deadline.is_over()) == (0.0, True)
    assert (NEVER.left_s(), NEVER.is_over(), Deadline.after(None).left_s()) == (None, False, None)


@pytest.mark.parametrize("table_limit", [100, 4_000_000])
@pytest.mark.parametrize("share", [None, 0.6, 0.4])
def test_after_the_deadline_the_first_choice_that_fits_is_taken(
    share: float | None, table_limit: int
) -> None:
    problem = training_step(Shape(layers=4, width=3, strategies=8), share)
    full = solve(problem, SolveOptions(table_limit=table_limit, gap_tolerance=0.0))
    cut = solve(problem, SolveOptions(table_limit=table_limit, gap_tolerance=0.0, deadline=OVER))
    assert problem.is_feasible(cut.choice)
    assert cut.is_cut_short == (cut.gap > 1e-9)
    assert not full.is_cut_short
    assert cut.statistics.integer_programs == 0
    assert cut.statistics.eliminations <= 8
    assert cut.bound_s <= full.objective_s * (1 + 1e-9) and full.objective_s <= cut.objective_s * (1 + 1e-9)


def test_the_deadline_may_come_at_any_moment() -> None:
    problem = training_step(Shape(layers=3, width=3, strategies=8), 0.4)
    options = SolveOptions(table_limit=100, gap_tolerance=0.0)
    full = solve(problem, options)
    seen = set()
    for readings in (1, 2, 4, 8, 16, 32):
        ticks = iter(range(10**6))
        cut = solve(problem, replace(options, deadline=Deadline(readings, lambda ticks=ticks: next(ticks))))
        assert problem.is_feasible(cut.choice)
        assert cut.bound_s <= full.objective_s * (1 + 1e-9)
        seen.add(cut.objective_s)
    assert len(seen) > 1, "the search is the same wherever it is cut"


def test_a_late_search_still_says_that_nothing_fits() -> None:
    problem = replace(training_step(Shape(layers=4, width=3, strategies=8)), budget_bytes=1.0)
    with pytest.raises(InfeasibleBudget) as caught:
        solve(problem, SolveOptions(deadline=OVER))
    assert caught.value.is_proven
    assert problem.peak_bytes(caught.value.choice) == caught.value.least_budget_bytes


def test_integer_programs_get_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[Any] = []
    original = backend.mathopt.solve

    def spied(*args: Any, **options: Any) -> Any:
        limits.append(options["params"].time_limit)
        return original(*args, **options)

    monkeypatch.setattr(backend.mathopt, "solve", spied)
    backend.run(knapsack(True), Limits(deadline=Deadline(100.0, lambda: 40.0)))
    backend.run(knapsack(True), Limits())
    assert [limit and limit.total_seconds() for limit in limits] == [60.0, None]


def test_a_search_that_cannot_win_stops() -> None:
    problem = training_step(Shape(layers=4, width=3, strategies=8), 0.4)
    options = SolveOptions(table_limit=100, gap_tolerance=0.0)
    full = solve(problem, options)
    hopeless = solve(problem, replace(options, cutoff_s=0.5 * full.bound_s))
    assert problem.is_feasible(hopeless.choice)
    assert hopeless.statistics.eliminations < full.statistics.eliminations
    assert not hopeless.is_cut_short
    same = solve(problem, replace(options, cutoff_s=full.objective_s))
    assert same.objective_s == full.objective_s


@pytest.mark.parametrize(
    ("peak", "bound", "budget", "cutoff", "is_met"),
    [
        (100.0, 90.0, 100.0, np.inf, True),  # fits
        (100.1, 100.0, 99.0, np.inf, True),  # near the bound
        (100.4, 100.0, 99.0, np.inf, True),  # nothing fits, near enough
        (100.4, 100.0, 100.1, np.inf, False),  # something may fit
        (102.0, 100.0, 99.0, np.inf, False),
        (102.0, 100.0, 99.0, 100.0, True),  # another mesh needs no more than the bound
        (102.0, 100.0, 100.1, 100.0, False),  # something may fit
        (102.0, 100.0, 99.0, 101.0, False),
    ],
)
def test_how_closely_the_least_budget_is_looked_for(
    peak: float, bound: float, budget: float, cutoff: float, is_met: bool
) -> None:
    target = Target(0.002, 0.005, budget, cutoff)
    assert target.is_met(Lean(np.zeros(1, np.int64), peak, bound)) is is_met


def test_one_program_proves_that_a_known_choice_is_leanest() -> None:
    usages = (Usage(0, 0, 1, np.array([5.0, 6.0])), Usage(1, 1, 2, np.array([9.0, 1.0])))
    problem = make_problem([[0.0, 0.0], [0.0, 0.0]], usages=usages, num_points=2)
    alone = least_exact(problem, [0], Limits(1e-9), unit_bytes=1.0)
    helped = least_exact(problem, [0], Limits(1e-9), unit_bytes=1.0, known=np.array([0, 1]))
    assert alone.choice is not None and helped.choice is not None
    assert problem.peak_bytes(alone.choice) == problem.peak_bytes(helped.choice) == 5.0
    assert (alone.rounds, helped.rounds) == (2, 1)


def test_of_equal_costs_the_one_of_less_memory_is_taken() -> None:
    usages = (Usage(0, 0, 1, np.array([3.0, 2.0, 1.0])),)
    problem = make_problem([[1.0, 1.0 + 1e-12, 1.0 + 1e-6]], usages=usages, num_points=1)
    reduced = preprocess(problem, use_dominance=False)
    assert reduced is not None
    search = Search(problem, reduced, SolveOptions())
    taken = [search.offer(np.array([strategy])) for strategy in (0, 1, 2, 0)]
    assert taken == [True, True, False, False]
    assert search.best is not None and search.best.tolist() == [1]
