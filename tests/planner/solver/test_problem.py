"""The problem type: objective, memory profile, validation."""

import numpy as np
import pytest

from meshwright.compiler.planner.solver import Edge, EdgeUsage, Problem, Usage, make_problem


def two_nodes() -> Problem:
    return make_problem(
        [[1.0, 2.0], [3.0, 5.0, np.inf]],
        [Edge(0, 1, np.arange(6.0).reshape(2, 3)), Edge(1, 0, np.ones((3, 2)))],
        usages=(Usage(0, 0, 2, np.array([10.0, 20.0])),),
        edge_usages=(EdgeUsage(0, 1, 3, np.arange(6.0).reshape(2, 3)),),
        num_points=4,
        budget_bytes=24.0,
        fixed_bytes=np.array([0.0, 0.0, 0.0, 7.0]),
    )


def test_objective_adds_nodes_and_parallel_edges() -> None:
    assert two_nodes().objective([1, 1]) == 2.0 + 5.0 + 4.0 + 1.0


def test_forbidden_choice_costs_infinity() -> None:
    problem = two_nodes()
    assert problem.objective([0, 2]) == np.inf
    assert not problem.is_feasible([0, 2])


def test_memory_counts_live_points_only() -> None:
    np.testing.assert_array_equal(two_nodes().memory([1, 1]), [20.0, 24.0, 4.0, 7.0])


def test_budget_is_inclusive() -> None:
    problem = two_nodes()
    assert problem.peak_bytes([1, 1]) == 24.0
    assert problem.is_feasible([1, 1])


def test_validation_names_every_fault() -> None:
    problem = make_problem(
        [[1.0], [np.nan]],
        [Edge(0, 0, np.zeros((1, 1))), Edge(0, 1, np.zeros((2, 1)))],
        usages=(Usage(5, 0, 1, np.ones(1)), Usage(0, 2, 1, np.ones(1))),
        num_points=1,
    )
    with pytest.raises(ValueError, match="malformed") as caught:
        problem.validate()
    text = str(caught.value)
    for part in ("node 1", "edge 0", "edge 1", "usage 0", "usage 1"):
        assert part in text
