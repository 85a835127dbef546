"""Each part keeps the optimum it promises to keep."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from meshwright.compiler.planner.solver import Problem
from meshwright.compiler.planner.solver.brute_force import brute_force
from meshwright.compiler.planner.solver.bucket_plan import plan_buckets
from meshwright.compiler.planner.solver.buckets import eliminate
from meshwright.compiler.planner.solver.elimination import shrink
from meshwright.compiler.planner.solver.folding import fold, refine
from meshwright.compiler.planner.solver.lagrangian import Ascent
from meshwright.compiler.planner.solver.marginals import min_marginals
from meshwright.compiler.planner.solver.polish import Polisher
from meshwright.compiler.planner.solver.preprocess import merge_parallel, preprocess
from meshwright.compiler.planner.solver.relaxation import relax
from meshwright.compiler.planner.solver.rows import tables_of, worst_points

from .random_problems import problems
from .synthetic import Shape, training_step


def all_choices(problem: Problem) -> list[np.ndarray]:
    return [np.array(c, np.int64) for c in itertools.product(*(range(len(c)) for c in problem.costs))]


@settings(max_examples=150)
@given(problems())
def test_preprocessing_keeps_an_optimum(problem: Problem) -> None:
    expected, reduced = brute_force(problem), preprocess(problem)
    if reduced is None:
        assert expected is None
        return
    found = brute_force(reduced.problem)
    assert (expected is None) == (found is None)
    if expected is not None and found is not None:
        assert found[1] == pytest.approx(expected[1], rel=1e-9, abs=1e-15)
        assert problem.objective(reduced.restore(found[0])) == pytest.approx(expected[1], rel=1e-9, abs=1e-15)
        assert problem.is_feasible(reduced.restore(found[0]))


@settings(max_examples=80)
@given(problems())
def test_merging_parallel_edges_changes_no_value(problem: Problem) -> None:
    merged = merge_parallel(problem)
    assert len({(e.i, e.j) for e in merged.edges}) == len(merged.edges)
    for choice in all_choices(problem)[:40]:
        assert merged.objective(choice) == pytest.approx(problem.objective(choice), rel=1e-9, abs=1e-15)
        np.testing.assert_array_equal(merged.memory(choice), problem.memory(choice))


@settings(max_examples=100)
@given(problems(budget=False), st.sampled_from([5, 20, 10_000]))
def test_bucket_elimination_bounds_and_attains(problem: Problem, table_limit: int) -> None:
    merged = merge_parallel(problem)
    expected = brute_force(merged)
    assume(expected is not None)
    assert expected is not None
    plan = plan_buckets(merged.sizes, [(e.i, e.j) for e in merged.edges], table_limit)
    outcome = eliminate(plan, merged.costs, [e.cost for e in merged.edges])
    assert outcome.value <= expected[1] * (1 + 1e-9) + 1e-15
    if plan.is_exact:
        assert outcome.value == pytest.approx(expected[1], rel=1e-9, abs=1e-15)
        assert merged.objective(outcome.choice()) == pytest.approx(expected[1], rel=1e-9, abs=1e-15)


@settings(max_examples=80)
@given(problems(budget=False), st.sampled_from([5, 20, 10_000]))
def test_min_marginals_hold_one_strategy(problem: Problem, table_limit: int) -> None:
    merged = merge_parallel(problem)
    assume(brute_force(merged) is not None)
    plan = plan_buckets(merged.sizes, [(e.i, e.j) for e in merged.edges], table_limit)
    outcome = eliminate(plan, merged.costs, [e.cost for e in merged.edges])
    costs = [(c, merged.objective(c)) for c in all_choices(merged)]
    for i, marginal in enumerate(min_marginals(outcome)):
        for p, value in enumerate(marginal):
            expected = min(cost for c, cost in costs if c[i] == p)
            assert value <= expected + 1e-12
            if plan.is_exact:
                assert value == pytest.approx(expected, rel=1e-9, abs=1e-15)


@settings(max_examples=100)
@given(problems(budget=False), st.integers(0, 31))
def test_low_degree_elimination_keeps_the_optimum(problem: Problem, mask: int) -> None:
    merged = merge_parallel(problem)
    expected = brute_force(merged)
    assume(expected is not None)
    assert expected is not None
    frozen = {i for i in range(merged.num_nodes) if mask >> i & 1}
    core = shrink(merged.costs, tables_of(merged), frozen)
    assert frozen <= set(core.nodes)
    best = np.inf
    for part in itertools.product(*(range(len(core.unary[i])) for i in core.nodes)):
        x = np.zeros(merged.num_nodes, np.int64)
        x[list(core.nodes)] = part
        cost = core.constant + sum(core.unary[i][x[i]] for i in core.nodes)
        cost += sum(t[x[i], x[j]] for (i, j), t in core.pairs.items())
        assert merged.objective(core.complete(x)) == pytest.approx(cost, rel=1e-9, abs=1e-15)
        best = min(best, cost)
    assert best == pytest.approx(expected[1], rel=1e-9, abs=1e-15)


@settings(max_examples=80)
@given(problems(budget=True), st.sampled_from([5, 20, 10_000]))
def test_lagrangian_is_a_lower_bound(problem: Problem, table_limit: int) -> None:
    reduced = preprocess(problem)
    expected = brute_force(problem)
    assume(reduced is not None and expected is not None)
    assert reduced is not None and expected is not None and problem.budget_bytes is not None
    inner = reduced.problem
    ascent = Ascent(inner, relax(inner, table_limit), problem.budget_bytes, problem.budget_bytes)
    ascent.probe(np.zeros(0))
    without_prices = ascent.bound
    ascent.climb(1e-9, 30)
    assert without_prices <= ascent.bound <= expected[1] * (1 + 1e-9) + 1e-15


@settings(max_examples=60)
@given(problems(), st.integers(0, 3))
def test_polish_keeps_feasible_and_never_costs_more(problem: Problem, start: int) -> None:
    merged = merge_parallel(problem)
    feasible = [c for c in all_choices(merged) if merged.is_feasible(c)]
    assume(len(feasible) > start)
    better = Polisher(merged).improve(feasible[start], [feasible[0], feasible[-1]])
    assert merged.is_feasible(better)
    assert merged.objective(better) <= merged.objective(feasible[start]) * (1 + 1e-9)


def test_folding_is_a_restriction() -> None:
    problem = training_step(Shape(layers=5, width=2, strategies=4), 0.5)
    labels = refine(problem)
    folded = fold(problem, labels)
    assert folded.problem.num_nodes < problem.num_nodes
    rng = np.random.default_rng(0)
    for _ in range(20):
        choice = np.array([rng.integers(k) for k in folded.problem.sizes])
        spread = folded.unfold(choice)
        assert folded.problem.objective(choice) == pytest.approx(problem.objective(spread), rel=1e-9)
        np.testing.assert_allclose(folded.problem.memory(choice), problem.memory(spread), rtol=1e-12)


@settings(max_examples=60)
@given(problems(), st.integers(0, 10**6))
def test_any_partition_of_equal_nodes_folds_exactly(problem: Problem, seed: int) -> None:
    merged = merge_parallel(problem)
    labels = np.random.default_rng(seed).integers(0, 2, merged.num_nodes) * 10 + merged.sizes
    folded = fold(merged, labels)
    for choice in all_choices(folded.problem):
        spread = folded.unfold(choice)
        assert folded.problem.objective(choice) == pytest.approx(
            merged.objective(spread), rel=1e-9, abs=1e-15
        )
        np.testing.assert_allclose(folded.problem.memory(choice), merged.memory(spread), atol=1e-9)


def test_folding_refuses_unequal_nodes() -> None:
    problem = training_step(Shape(layers=1, width=1, strategies=2))
    costs = (np.zeros(3), *problem.costs[1:])
    with pytest.raises(ValueError, match="strategies"):
        fold(Problem(problem.names, costs), [0] * problem.num_nodes)


def test_copies_of_a_layer_get_one_colour() -> None:
    shape = Shape(layers=12, width=2, strategies=3)
    labels = refine(training_step(shape), rounds=2)
    period = 6 * shape.width
    assert (labels[5 * period : 6 * period] == labels[6 * period : 7 * period]).all()
    assert len(set(labels.tolist())) < 6 * period


def test_worst_points_are_local_peaks() -> None:
    memory = np.array([1.0, 5.0, 5.0, 2.0, 9.0, 8.0])
    assert worst_points(memory, 3.0, 5) == [4, 1]
    assert worst_points(memory, 10.0, 5) == []
    assert worst_points(memory, 10.0, 5, reach=0.2) == [4]
