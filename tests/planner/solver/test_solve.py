"""The solver against enumeration, and the properties every answer must have."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from meshwright.compiler.planner.solver import (
    Edge,
    InfeasibleBudget,
    NoAllowedChoice,
    Problem,
    SolveOptions,
    Usage,
    make_problem,
    solve,
)
from meshwright.compiler.planner.solver.brute_force import brute_force, least_budget

from .random_problems import problems
from .synthetic import Shape, training_step

EXACTLY = SolveOptions(gap_tolerance=0.0)


def best_cost(problem: Problem, options: SolveOptions = EXACTLY) -> float:
    """Cost of the solver's answer, infinite where it finds that there is none."""
    try:
        return solve(problem, options).objective_s
    except (InfeasibleBudget, NoAllowedChoice):
        return np.inf


@settings(max_examples=250)
@given(problems())
def test_matches_enumeration(problem: Problem) -> None:
    expected = brute_force(problem)
    if expected is None:
        with pytest.raises((InfeasibleBudget, NoAllowedChoice)):
            solve(problem, EXACTLY)
        return
    solution = solve(problem, EXACTLY)
    assert problem.is_feasible(solution.choice)
    assert solution.objective_s == pytest.approx(expected[1], rel=1e-9, abs=1e-15)
    assert solution.is_optimal and solution.bound_s <= expected[1] * (1 + 1e-9)
    assert solution.peak_bytes == problem.peak_bytes(solution.choice)


@settings(max_examples=100)
@given(problems(), st.integers(0, 3), st.sampled_from([4, 16, 4_000_000]))
def test_every_effort_is_feasible_and_certified(problem: Problem, effort: int, table_limit: int) -> None:
    expected = brute_force(problem)
    assume(expected is not None)
    assert expected is not None
    solution = solve(problem, SolveOptions(effort=effort, gap_tolerance=0.0, table_limit=table_limit))
    assert problem.is_feasible(solution.choice)
    assert solution.bound_s <= expected[1] * (1 + 1e-9) + 1e-15
    assert expected[1] <= solution.objective_s * (1 + 1e-9) + 1e-15
    if effort >= 2:
        assert solution.objective_s == pytest.approx(expected[1], rel=1e-9, abs=1e-15)


@settings(max_examples=100)
@given(problems(), st.sampled_from([4, 4_000_000]))
def test_floors_are_below_what_each_strategy_costs(problem: Problem, table_limit: int) -> None:
    assume(brute_force(problem) is not None)
    solution = solve(problem, SolveOptions(0, 10.0, table_limit=table_limit, wants_floors=True))
    assert solution.is_optimal == (solution.floors == ())
    for node, floor in enumerate(solution.floors):
        for k, low in enumerate(floor):
            costs = list(problem.costs)
            costs[node] = np.where(np.arange(len(floor)) == k, costs[node], np.inf)
            held = brute_force(replace(problem, costs=tuple(costs)))
            assert held is None or low <= held[1] * (1 + 1e-9) + 1e-15


@settings(max_examples=80)
@given(problems(budget=True))
def test_infeasible_budget_reports_the_least_that_works(problem: Problem) -> None:
    least = least_budget(problem)
    assume(np.isfinite(least) and least > 0)
    too_little = replace(problem, budget_bytes=least * 0.9)
    with pytest.raises(InfeasibleBudget) as caught:
        solve(too_little, EXACTLY)
    error = caught.value
    assert error.least_budget_bytes == pytest.approx(least, rel=1e-9)
    assert error.bound_bytes <= least * (1 + 1e-9)
    assert problem.memory(error.choice)[error.point] == problem.peak_bytes(error.choice)
    again = solve(replace(problem, budget_bytes=error.least_budget_bytes), EXACTLY)
    assert again.peak_bytes <= error.least_budget_bytes


@settings(max_examples=60)
@given(problems(budget=True), st.floats(1.0, 3.0))
def test_more_memory_never_costs_more(problem: Problem, factor: float) -> None:
    assert problem.budget_bytes is not None
    roomier = replace(problem, budget_bytes=problem.budget_bytes * factor)
    assert best_cost(roomier) <= best_cost(problem) * (1 + 1e-9)


@settings(max_examples=60)
@given(problems(), st.integers(0, 10**6))
def test_one_more_strategy_never_costs_more(problem: Problem, seed: int) -> None:
    rng = np.random.default_rng(seed)
    node = int(rng.integers(problem.num_nodes))
    assert best_cost(_with_strategy(problem, node, rng)) <= best_cost(problem) * (1 + 1e-9)


@settings(max_examples=60)
@given(problems(), st.integers(0, 10**6))
def test_numbering_of_nodes_does_not_matter(problem: Problem, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(problem.num_nodes)
    expected = best_cost(problem)
    assert best_cost(_renumbered(problem, order)) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_same_input_same_choice() -> None:
    problem = training_step(Shape(layers=3, width=3, strategies=6), budget_share=0.4)
    first = solve(problem)
    for _ in range(9):
        assert solve(problem).choice.tolist() == first.choice.tolist()


@pytest.mark.parametrize("share", [None, 0.6, 0.3])
def test_repeated_layers_within_the_tolerance(share: float | None) -> None:
    problem = training_step(Shape(layers=6, width=4, strategies=10), share)
    solution = solve(problem)
    assert problem.is_feasible(solution.choice)
    assert solution.gap <= 2e-3
    assert solution.statistics.is_exact_elimination


def test_split_tables_still_certify() -> None:
    problem = training_step(Shape(layers=4, width=3, strategies=8), 0.4)
    exact = solve(problem)
    split = solve(problem, SolveOptions(table_limit=100))
    assert not split.statistics.is_exact_elimination
    assert problem.is_feasible(split.choice)
    assert split.bound_s <= exact.objective_s * (1 + 1e-9)
    assert exact.bound_s <= split.objective_s * (1 + 1e-9)


@pytest.mark.parametrize("table_limit", [300, 4_000_000])
def test_the_least_budget_is_close_to_its_bound_and_can_be_solved(table_limit: int) -> None:
    problem = training_step(Shape(layers=4, width=3, strategies=8))
    options = SolveOptions(table_limit=table_limit, gap_tolerance=0.01)
    with pytest.raises(InfeasibleBudget) as caught:
        solve(replace(problem, budget_bytes=1.0), options)
    error = caught.value
    assert error.is_proven
    assert error.bound_bytes <= error.least_budget_bytes <= 1.02 * error.bound_bytes
    fits = solve(replace(problem, budget_bytes=error.least_budget_bytes), options)
    assert fits.peak_bytes <= error.least_budget_bytes
    with pytest.raises(InfeasibleBudget):
        solve(replace(problem, budget_bytes=0.999 * error.bound_bytes), options)


def test_effort_raises_quality_not_cost_model() -> None:
    problem = training_step(Shape(layers=3, width=2, strategies=6), 0.4)
    costs = [solve(problem, SolveOptions(effort=e)).objective_s for e in range(3)]
    assert costs[2] <= costs[0] * (1 + 1e-9)


def test_given_partition_is_accepted() -> None:
    shape = Shape(layers=3, width=2, strategies=5)
    problem = training_step(shape, 0.3)
    period = 6 * shape.width
    labels = [i % period for i in range(problem.num_nodes)]
    options = SolveOptions(effort=1, gap_tolerance=0.0, table_limit=30, partition=labels)
    solution = solve(problem, options)
    assert problem.is_feasible(solution.choice)
    assert 0 < solution.statistics.classes < problem.num_nodes


def test_no_allowed_choice() -> None:
    problem = make_problem([[1.0, 2.0], [1.0]], [Edge(0, 1, np.full((2, 1), np.inf))])
    with pytest.raises(NoAllowedChoice):
        solve(problem)


def test_empty_problem() -> None:
    solution = solve(make_problem([]))
    assert solution.choice.tolist() == [] and solution.objective_s == 0.0 and solution.is_optimal


def test_malformed_problem_is_refused() -> None:
    with pytest.raises(ValueError, match="usage 0"):
        solve(make_problem([[1.0]], usages=(Usage(3, 0, 1, np.ones(1)),), num_points=1))


def test_unknown_effort_is_refused() -> None:
    with pytest.raises(ValueError, match="effort"):
        SolveOptions(effort=4)


def _with_strategy(problem: Problem, node: int, rng: np.random.Generator) -> Problem:
    def grown(table: np.ndarray, axis: int, high: float) -> np.ndarray:
        shape = list(table.shape)
        shape[axis] = 1
        return np.concatenate([table, rng.integers(0, 20, shape) * high], axis)

    def edge(e: Edge) -> Edge:
        cost = grown(e.cost, 0, 1e-5) if e.i == node else e.cost
        return Edge(e.i, e.j, grown(cost, 1, 1e-5) if e.j == node else cost)

    costs = tuple(grown(c, 0, 1e-5) if i == node else c for i, c in enumerate(problem.costs))
    usages = tuple(replace(u, bytes=grown(u.bytes, 0, 1.0)) if u.node == node else u for u in problem.usages)
    on_edges = []
    for usage in problem.edge_usages:
        ends = problem.edges[usage.edge]
        table = grown(usage.bytes, 0, 1.0) if ends.i == node else usage.bytes
        on_edges.append(replace(usage, bytes=grown(table, 1, 1.0) if ends.j == node else table))
    edges = tuple(edge(e) for e in problem.edges)
    return replace(problem, costs=costs, edges=edges, usages=usages, edge_usages=tuple(on_edges))


def _renumbered(problem: Problem, order: np.ndarray) -> Problem:
    place = np.argsort(order)
    return replace(
        problem,
        names=tuple(problem.names[i] for i in order),
        costs=tuple(problem.costs[i] for i in order),
        edges=tuple(Edge(int(place[e.i]), int(place[e.j]), e.cost) for e in problem.edges),
        usages=tuple(replace(u, node=int(place[u.node])) for u in problem.usages),
    )
