"""Each template makes the collectives of its paper, or says why it does not apply; no free plan is worse."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import meshwright as mw
from meshwright.compiler.ir import Program
from meshwright.compiler.planner import PlanOptions, plan_program, search
from meshwright.compiler.planner.solver.solve import solve
from meshwright.compiler.planner.templates.catalogue import TEMPLATES
from meshwright.cost_models.cluster import Cluster

from . import expert_programs as programs
from .models import BOOK, DONATE, f32, traced

H100, V5E = Cluster.load("h100:1x8"), Cluster.load("v5e:2x4")
ACTIVATION = programs.BYTES_OF_ACTIVATION
_TRACED: dict[str, Program] = {}


def _program(name: str) -> Program:
    if name not in _TRACED:
        _TRACED[name] = traced(*programs.PROGRAMS[name](), options=DONATE)
    return _TRACED[name]


def _plan(name: str, template: str | None, cluster: Cluster = H100, **options: Any) -> mw.Plan:
    return plan_program(_program(name), cluster, PlanOptions(template=template, **options), BOOK)


def _kinds(plan: mw.Plan, least_bytes: int = 4096) -> Counter[str]:
    """How often each kind of collective moves at least so many bytes."""
    found: Counter[str] = Counter()
    for use in plan.collectives:
        if use.bytes >= least_bytes:
            found[use.kind] += use.count
    return found


def _moved(plan: mw.Plan, kind: str) -> int:
    return sum(u.bytes * u.count for u in plan.collectives if u.kind == kind and u.bytes > 64)


@pytest.mark.parametrize("name", ["decoder", "mlp", "cnn"])
def test_data_parallel_sums_gradients_and_moves_nothing_else(name: str) -> None:
    plan = _plan(name, "data")
    size = programs.bytes_of(programs.PROGRAMS[name]()[1][0])
    assert set(_kinds(plan, 65)) == {"all-reduce"}
    assert _moved(plan, "all-reduce") == size
    state = [spec for path, spec in plan.shardings.items() if path.startswith("q")]
    assert not any(axes for spec in state for axes in spec)
    assert plan.certificate.template == "data"


def test_zero_splits_the_optimizer_only() -> None:
    plan = _plan("decoder", "zero")
    size = programs.bytes_of(programs.decoder()[1][0])
    assert _moved(plan, "reduce-scatter") == _moved(plan, "all-gather") == size
    assert _moved(plan, "all-reduce") == 0
    assert all(any(spec) for path, spec in plan.shardings.items() if path.startswith("q/1"))
    assert not any(any(spec) for path, spec in plan.shardings.items() if path.startswith("q/0"))


def test_fsdp_gathers_parameters_twice_and_scatters_gradients() -> None:
    plan = _plan("decoder", "fsdp")
    size = programs.bytes_of(programs.decoder()[1][0])
    table = programs.TOKENS * programs.WIDTH * 4  # of tokens: its gradient needs none of it
    assert _moved(plan, "all-gather") == 2 * size - table
    assert _moved(plan, "reduce-scatter") == size
    assert _moved(plan, "all-reduce") == 0
    assert all(any(spec) for path, spec in plan.shardings.items() if path.startswith("q"))


def _sums(plan: mw.Plan, kind: str) -> int:
    """Sums of whole activations, each where it is made or where it is first added to another."""
    uses = [u for u in plan.collectives if u.kind == kind and u.bytes == ACTIVATION]
    return sum(u.count for u in uses if u.op in ("add", "add_any", "dot_general", "gather"))


def test_tensor_parallel_makes_four_all_reduces_a_layer() -> None:
    plan = _plan("decoder", "tensor")
    # Two forwards, two backwards, and one each for the table of tokens and the scores of the next.
    assert _sums(plan, "all-reduce") == 4 * programs.LAYERS + 2
    assert set(_kinds(plan)) == {"all-reduce"}
    shardings = plan.shardings
    assert shardings["q/0/1/0/0"] == ((), (), ("data",), ())
    assert shardings["q/0/1/0/1"] == (("data",), (), ())
    assert shardings["q/0/1/0/2"] == ((), ("data",))
    assert shardings["q/0/1/0/3"] == (("data",), ())
    assert not any(shardings["z"])


def test_with_sequence_parallel_they_are_scatters_and_gathers() -> None:
    plan = _plan("decoder", "tensor+sequence")
    assert _sums(plan, "reduce-scatter") == 4 * programs.LAYERS
    # The table of tokens and the scores of the next: several loops read their sums.
    assert _sums(plan, "all-reduce") == 2
    assert _kinds(plan)["all-gather"] >= 4 * programs.LAYERS
    assert plan.peak_memory_bytes < _plan("decoder", "tensor").peak_memory_bytes


def test_sequence_parallel_alone_gathers_keys_and_values() -> None:
    plan = _plan("decoder", "sequence")
    gathered = [u for u in plan.collectives if u.kind == "all-gather"]
    assert sum(u.count for u in gathered) == 4 * programs.LAYERS
    assert all(u.op == "dot_general" for u in gathered)


def test_experts_take_their_tokens_by_all_to_all() -> None:
    plan = _plan("moe", "expert")
    assert _kinds(plan) == {"all-to-all": 4}  # there and back, forwards and backwards
    assert plan.shardings["q/0/1"] == (("data",), (), ())
    assert plan.shardings["z"] == (("data",), (), ())


@pytest.mark.parametrize("name", ["2d", "2.5d", "3d"])
def test_tensor_parallel_in_several_dims(name: str) -> None:
    plan = _plan("mlp", name)
    axes = plan.mesh.axis_names
    at_rest = {axis for dim in plan.shardings["q/0/1/0"] for axis in dim}
    assert at_rest == set(axes[1:] if name == "2.5d" else axes)  # 2.5d keeps a copy along its first axis
    assert _kinds(plan, 0)["all-to-all"] == 0


SPLITS = {
    "data+fsdp": ({"q/0/1/0/2": {"model"}}, {"z": {"data", "model"}}),
    "data+tensor": ({"q/0/1/0/2": {"model"}}, {"z": {"data"}}),
    "fsdp+tensor": ({"q/0/1/0/2": {"data", "model"}}, {"z": {"data"}}),
    "fsdp+tensor+sequence": ({"q/0/1/0/2": {"data", "model"}}, {"z": {"data"}}),
    "data+sequence": ({"q/0/1/0/2": set()}, {"z": {"data"}}),
}


@pytest.mark.parametrize("name", sorted(SPLITS))
def test_combinations_give_each_axis_its_part(name: str) -> None:
    plan = _plan("decoder", name)
    assert len(plan.mesh.shape) == 2
    for expected in SPLITS[name]:
        for path, axes in expected.items():
            assert {axis for dim in plan.shardings[path] for axis in dim} == axes


def test_parts_go_by_the_order_of_axes() -> None:
    plan = _plan("mlp", "data+tensor", mesh={"a": 4, "b": 2})
    assert plan.shardings["z/0"] == (("a",), ())
    assert plan.shardings["q/0/0/0"] == ((), ("b",))
    plan = _plan("mlp", "tensor", mesh={"a": 4, "b": 2})
    assert set(plan.shardings["q/0/0/0"][1]) == {"a", "b"}


WITHIN_TWO = [name for name, template in TEMPLATES.items() if len(template.parts) < 3]


ON_ALL = [
    *((name, H100) for name in sorted(programs.PROGRAMS)),
    *((name, V5E) for name in ("cnn", "mlp", "moe")),
    pytest.param("decoder", V5E, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "cluster"), ON_ALL)
def test_no_free_plan_is_worse_than_a_template(name: str, cluster: Cluster) -> None:
    free = [_plan(name, None, cluster, effort=effort).objective_s for effort in (0, 2)]
    applied = []
    for template in WITHIN_TWO:
        try:
            plan = _plan(name, template, cluster)
        except mw.TemplateError as error:
            assert error.template == template
            assert template not in error.applying
            continue
        applied.append(template)
        assert plan.certificate.template == template
        assert free[1] <= plan.objective_s * (1 + 1e-9)
        if len(TEMPLATES[template].parts) == 1:  # the quickest search tries meshes of one axis
            assert free[0] <= plan.objective_s * (1 + 1e-9)
    assert {"data", "zero", "fsdp", "tensor", "data+tensor", "fsdp+tensor", "2d"} <= set(applied)
    assert ("expert" in applied) == (name == "moe")
    assert ("tensor+sequence" in applied) == (name in ("decoder", "moe"))


def test_a_template_takes_the_place_of_a_poor_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the search had stopped at a plan far above its bound."""

    def poor(problem: Any, options: Any) -> Any:
        found = solve(problem, options)
        choice = np.zeros_like(found.choice)  # everything replicated
        return replace(found, choice=choice, objective_s=problem.objective(choice), is_optimal=False)

    program = traced(*programs.mlp(32), options=DONATE)

    def planned(template: str | None) -> mw.Plan:
        return plan_program(program, H100, PlanOptions(mesh=(8,), template=template), BOOK)

    monkeypatch.setattr(search, "solve", poor)
    plan = planned(None)
    best = min(map(planned, ("data", "zero", "fsdp", "tensor")), key=lambda p: p.objective_s)
    assert plan.certificate.template == best.certificate.template
    assert plan.objective_s == pytest.approx(best.objective_s, rel=1e-9)
    assert plan.bound_s <= plan.objective_s


def test_the_same_template_gives_the_same_plan() -> None:
    case = programs.mlp()
    plans = [mw.plan(*case, cluster="v5e:2x4", template="fsdp+tensor", donate_argnums=0) for _ in range(2)]
    assert plans[0].hash == plans[1].hash


def test_pins_hold_within_a_template() -> None:
    plan = _plan("mlp", "fsdp", pins={"q/0/0/0": (None, "data")})
    assert plan.shardings["q/0/0/0"] == ((), ("data",))


def test_a_budget_no_template_plan_fits() -> None:
    with pytest.raises(mw.InfeasibleError):
        _plan("mlp", "data", budget_bytes=1000)


def test_a_wrong_name_is_told_with_the_nearest() -> None:
    with pytest.raises(mw.ArgumentError, match=r"'fdsp' is none of the templates data, .*mean 'fsdp'\?"):
        PlanOptions(template="fdsp")
    with pytest.raises(mw.ArgumentError, match="template=3 is none"):
        PlanOptions(template=3)  # type: ignore[arg-type]


def test_a_template_that_does_not_apply_says_why_and_which_do() -> None:
    with pytest.raises(mw.TemplateError, match="the program has no experts") as caught:
        _plan("mlp", "expert")
    assert set(caught.value.applying) == {
        *("data", "zero", "fsdp", "tensor", "data+fsdp", "data+tensor", "zero+tensor", "fsdp+tensor"),
        *("2d", "2.5d", "3d"),
    }


def test_too_few_axes_and_dims_that_do_not_divide() -> None:
    with pytest.raises(mw.TemplateError, match="on mesh 8 it needs 2 mesh axes and the mesh has 1"):
        _plan("mlp", "data+tensor", mesh=(8,))
    program = traced(lambda w, z: (z @ w[0]) @ w[1], [f32(15, 21), f32(21, 15)], f32(9, 15), options=DONATE)
    with pytest.raises(mw.TemplateError, match=r"data=8 does not divide its batch \(9\).*No template"):
        plan_program(program, H100, PlanOptions(template="data"), BOOK)
    with pytest.raises(mw.TemplateError, match="is one device"):
        plan_program(program, Cluster.load("cpu:1"), PlanOptions(template="data"), BOOK)
