"""The search over meshes: its time limit, and how ties between meshes are broken."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import meshwright as mw
from meshwright.compiler.planner import PlanOptions, plan_program
from meshwright.compiler.planner.candidates import Candidates
from meshwright.cost_models.cluster import Cluster
from meshwright.cost_models.mesh import LogicalMesh, candidate_meshes

from .models import BOOK, DONATE, f32, traced

CLUSTER = Cluster.load("h100:2x8")
MESHES = candidate_meshes(CLUSTER, 2)


def _step(params: Any, batch: Any) -> Any:
    def loss(params: Any) -> Any:
        x = batch
        for w in params:
            x = jnp.tanh(x @ w)
        return jnp.mean(x**2)

    return jax.tree.map(lambda p, g: p - g, params, jax.grad(loss)(params))


PROGRAM = traced(_step, [f32(1024, 1024)] * 4, f32(512, 1024), options=DONATE)


def _planned_until(mesh: int, **options: Any) -> mw.Plan:
    """Plans with a limit of 5 s on a clock that stands still until this mesh begins, then is past it."""
    begun: list[str] = []
    return plan_program(
        PROGRAM,
        CLUSTER,
        PlanOptions(time_limit_s=5.0, **options),
        BOOK,
        progress=begun.append,
        clock=lambda: 6.0 if len(begun) > mesh else 0.0,
    )


@pytest.mark.parametrize("mesh", range(len(MESHES)))
def test_the_limit_ends_the_search_and_the_plan_says_so(mesh: int) -> None:
    plan = _planned_until(mesh)
    tried = [shape for shape, _ in plan.certificate.meshes]
    assert tried == [m.shape for m in MESHES[: mesh + 1]]
    assert plan.mesh.shape in tried
    assert plan.certificate.is_cut_short == (mesh + 1 < len(MESHES) or plan.gap > 1e-6)


def test_within_the_limit_the_plan_is_that_without_one() -> None:
    plan = _planned_until(len(MESHES))
    free = plan_program(PROGRAM, CLUSTER, PlanOptions(), BOOK)
    assert plan.hash == free.hash
    assert not plan.certificate.is_cut_short
    assert [shape for shape, _ in plan.certificate.meshes] == [m.shape for m in MESHES]
    assert "ended by the time limit" not in str(plan)
    assert "ended by the time limit" in str(_planned_until(0))


def test_a_tight_budget_is_still_kept_after_the_limit() -> None:
    free = plan_program(PROGRAM, CLUSTER, PlanOptions(mesh=(16,)), BOOK)
    with pytest.raises(mw.InfeasibleError) as caught:
        plan_program(PROGRAM, CLUSTER, PlanOptions(mesh=(16,), budget_bytes=1), BOOK)
    budget = (free.peak_memory_bytes + caught.value.least_budget_bytes) // 2
    plan = _planned_until(0, budget_bytes=budget)
    assert plan.peak_memory_bytes <= budget
    assert len(plan.certificate.meshes) == 1


def test_nothing_found_in_time_names_the_limit() -> None:
    with pytest.raises(mw.InfeasibleError, match="more than time_limit_s=5 may find one") as caught:
        _planned_until(0, budget_bytes=1)
    assert not caught.value.is_proven
    assert caught.value.time_limit_s == 5.0
    with pytest.raises(mw.InfeasibleError, match="No plan fits") as proved:
        _planned_until(len(MESHES), budget_bytes=1)
    assert proved.value.is_proven and proved.value.time_limit_s is None


def test_the_least_budget_of_all_meshes_is_reported_and_works() -> None:
    with pytest.raises(mw.InfeasibleError) as caught:
        plan_program(PROGRAM, CLUSTER, PlanOptions(budget_bytes=1), BOOK)
    least = caught.value.least_budget_bytes
    each = []
    for mesh in MESHES:
        with pytest.raises(mw.InfeasibleError) as alone:
            plan_program(PROGRAM, CLUSTER, PlanOptions(mesh=mesh.shape, budget_bytes=1), BOOK)
        each.append(alone.value.least_budget_bytes)
    assert least == min(each)
    assert plan_program(PROGRAM, CLUSTER, PlanOptions(budget_bytes=least), BOOK).peak_memory_bytes <= least


@pytest.mark.parametrize(
    ("answers", "chosen"),
    [
        ([(1.0, 9, 1), (0.9, 99, 3)], 1),  # cheaper
        ([(1.0, 9, 1), (1.0 + 1e-12, 8, 3)], 1),  # as cheap, of less memory
        ([(1.0, 9, 3), (1.0 - 1e-12, 9, 2)], 1),  # fewer axes
        ([(1.0, 9, 1), (1.0 - 1e-12, 9, 2)], 0),
        ([(1.0, 9, 2), (1.0, 9, 2)], 0),  # the first
        ([(1.0, 9, 1), (1.0 + 1e-6, 1, 1)], 0),
    ],
)
def test_ties_between_meshes(answers: list[tuple[float, int, int]], chosen: int) -> None:
    found = Candidates()
    shapes = {1: (16,), 2: (2, 8), 3: (2, 2, 4)}
    for cost_s, peak_bytes, axes in answers:
        mesh = LogicalMesh(CLUSTER, shapes[axes], tuple("abc"[:axes]))
        solution: Any = SimpleNamespace(objective_s=cost_s, peak_bytes=peak_bytes, is_cut_short=False)
        found.add(mesh, None, solution)  # type: ignore[arg-type]
    assert found.best is not None
    assert (found.best.solution.objective_s, found.best.solution.peak_bytes) == answers[chosen][:2]
    assert len(found.best.mesh.shape) == answers[chosen][2]
