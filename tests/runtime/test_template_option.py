"""A forced template computes what one device does, and stands in for no given plan."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import meshwright as mw
from tests.planner import expert_programs as programs

CASES = [
    ("mlp", "fsdp", None),
    ("decoder", "data+tensor", (2, 4)),
    ("decoder", "tensor+sequence", (4,)),
    ("moe", "expert", None),
]


@pytest.mark.parametrize(("name", "template", "mesh"), CASES)
def test_two_steps_are_those_of_one_device(name: str, template: str, mesh: Any) -> None:
    step, state, batch = programs.PROGRAMS[name]()
    cluster = "cpu:8" if mesh is None or np.prod(mesh) == 8 else "cpu:4"
    planned = mw.autoparallel(step, cluster=cluster, mesh=mesh, template=template)
    values, fed = programs.values_of(state), programs.values_of(batch, 1)
    expected = found = values
    for _ in range(2):
        expected, expected_loss = jax.jit(step)(expected, fed)
        found, loss = planned(found, fed)
    assert planned.plan(state, batch).certificate.template == template
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-4)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_a_given_plan_leaves_no_room_for_a_template(tmp_path: Path) -> None:
    step, state, batch = programs.mlp()
    plan = mw.plan(step, state, batch, cluster="cpu:8", template="fsdp")
    path = tmp_path / "plan.json"
    plan.save(path)
    assert mw.Plan.load(path).certificate.template == "fsdp"
    with pytest.raises(mw.ArgumentError, match="leave out template="):
        mw.autoparallel(step, plan=path, template="fsdp")
    planned = mw.autoparallel(step, cluster="cpu:8", template="fsdp").with_options(plan=path)
    assert planned.plan(state, batch) == plan


def test_a_wrong_template_is_told_at_once() -> None:
    with pytest.raises(mw.ArgumentError, match="none of the templates"):
        mw.autoparallel(lambda x: x, template="magic")
