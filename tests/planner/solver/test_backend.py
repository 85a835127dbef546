"""The door to the linear and integer solver."""

from pathlib import Path

import numpy as np
import pytest

from meshwright.compiler.errors import SolverError
from meshwright.compiler.planner.solver.backend import Limits, LinearModel, run


def knapsack(integer: bool, capacity: float = 5.0, low: float = -np.inf) -> LinearModel:
    """Minimise -(4a + 3b + 2c) with 3a + 2b + 2c <= capacity, all in [0, 1]."""
    return LinearModel(
        objective=np.array([-4.0, -3.0, -2.0]),
        lower=np.zeros(3),
        upper=np.ones(3),
        integer=np.full(3, integer),
        row=np.zeros(3, np.int64),
        column=np.arange(3),
        value=np.array([3.0, 2.0, 2.0]),
        row_lower=np.array([low]),
        row_upper=np.array([capacity]),
    )


def test_integer_optimum() -> None:
    result = run(knapsack(True), Limits())
    assert result.values is not None
    np.testing.assert_allclose(result.values, [1.0, 1.0, 0.0], atol=1e-9)
    assert result.objective == pytest.approx(-7.0)
    assert result.bound == pytest.approx(-7.0)


def test_linear_duals_price_the_row() -> None:
    result = run(knapsack(False, capacity=4.0), Limits())
    assert result.objective == pytest.approx(-3.0 - 4.0 * 2.0 / 3.0)
    assert result.duals[0] == pytest.approx(-4.0 / 3.0)


def test_infeasible_has_an_infinite_bound() -> None:
    result = run(knapsack(True, capacity=np.inf, low=100.0), Limits())
    assert result.values is None and result.bound == np.inf


def test_failure_keeps_the_model() -> None:
    model = knapsack(True)
    unbounded = LinearModel(**{**model.__dict__, "lower": np.full(3, -np.inf), "objective": np.ones(3)})
    with pytest.raises(SolverError, match="model is in") as caught:
        run(unbounded, Limits())
    path = Path(str(caught.value).split("model is in ")[1].split()[0].rstrip(".)"))
    assert path.stat().st_size > 0
    path.unlink()
