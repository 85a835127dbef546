"""Bounds from split tables: valid whatever the messages, and close once the messages have done their work."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from meshwright.compiler.planner.solver import Problem
from meshwright.compiler.planner.solver.brute_force import brute_force
from meshwright.compiler.planner.solver.bucket_plan import plan_buckets
from meshwright.compiler.planner.solver.buckets import eliminate
from meshwright.compiler.planner.solver.diffusion import Diffusion
from meshwright.compiler.planner.solver.preprocess import merge_parallel
from meshwright.compiler.planner.solver.relaxation import Split, Whole, relax
from meshwright.compiler.planner.solver.rows import mean_row, tables_of

from .random_problems import problems
from .synthetic import Shape, training_step


def all_choices(problem: Problem) -> list[np.ndarray]:
    return [np.array(c, np.int64) for c in itertools.product(*(range(len(c)) for c in problem.costs))]


@settings(max_examples=80)
@given(problems(budget=False), st.integers(0, 4))
def test_messages_change_the_cost_of_no_choice(problem: Problem, sweeps: int) -> None:
    merged = merge_parallel(problem)
    pairs = [(e.i, e.j) for e in merged.edges]
    tables = [e.cost for e in merged.edges]
    diffusion = Diffusion(merged.sizes, pairs)
    diffusion.sweep(merged.costs, tables, sweeps)
    costs, moved = diffusion.moved(merged.costs, tables)
    for x in all_choices(merged)[:60]:
        total = sum(c[x[i]] for i, c in enumerate(costs))
        total += sum(t[x[i], x[j]] for (i, j), t in zip(pairs, moved, strict=True))
        assert total == pytest.approx(merged.objective(x), rel=1e-9, abs=1e-12)


@settings(max_examples=100)
@given(problems(budget=False), st.sampled_from([5, 20, 10_000]))
def test_split_relaxation_bounds_cost_and_marginals(problem: Problem, table_limit: int) -> None:
    merged = merge_parallel(problem)
    expected = brute_force(merged)
    assume(expected is not None)
    assert expected is not None
    run = Split.of(merged, table_limit).run(merged.costs, tables_of(merged))
    assert run.value <= expected[1] * (1 + 1e-9) + 1e-15
    costs = [(c, merged.objective(c)) for c in all_choices(merged)]
    for i, marginal in enumerate(run.marginals()):
        for p, value in enumerate(marginal):
            assert value <= min(cost for c, cost in costs if c[i] == p) + 1e-12
    assert merged.objective(run.choice()) >= run.value - 1e-12


@settings(max_examples=60)
@given(problems(budget=False), st.sampled_from([5, 20]), st.integers(0, 10**6))
def test_messages_stay_valid_for_other_costs(problem: Problem, table_limit: int, seed: int) -> None:
    merged = merge_parallel(problem)
    expected = brute_force(merged)
    assume(expected is not None)
    assert expected is not None
    split = Split.of(merged, table_limit)
    rng = np.random.default_rng(seed)
    split.run([c + rng.random(len(c)) * 1e-3 for c in merged.costs], tables_of(merged))
    run = split.run(merged.costs, tables_of(merged))
    assert run.value <= expected[1] * (1 + 1e-9) + 1e-15


def test_relaxation_is_whole_where_tables_fit() -> None:
    problem = training_step(Shape(layers=3, width=2, strategies=5))
    whole, split = relax(problem, 4_000_000), relax(problem, 30)
    assert isinstance(whole, Whole) and whole.is_exact and whole.entries > 0
    assert isinstance(split, Split) and not split.is_exact


def test_messages_close_most_of_the_gap_of_split_tables() -> None:
    problem = training_step(Shape(layers=6, width=3, strategies=8))
    tables = tables_of(problem)
    best = relax(problem, 4_000_000).run(problem.costs, tables).value
    plan = plan_buckets(problem.sizes, list(tables), 100)
    plain = eliminate(plan, problem.costs, list(tables.values())).value
    split = relax(problem, 100)
    values = [split.run(problem.costs, tables).value for _ in range(4)]
    assert plain < values[0] <= best * (1 + 1e-9)
    assert best - max(values) < 0.25 * (best - plain)


def test_mean_row_is_the_mean_of_all_points() -> None:
    problem = training_step(Shape(layers=3, width=2, strategies=4), 0.5)
    row = mean_row(problem, 2.0**20)
    rng = np.random.default_rng(0)
    for _ in range(10):
        x = np.array([rng.integers(k) for k in problem.sizes])
        weight = sum(w[x[i]] for i, w in row.node.items()) - row.capacity
        assert weight == pytest.approx(problem.memory(x).mean() / 2**20)
