"""``mw.verify`` of wrong plans: one clear error each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import pytest

import meshwright as mw

X = jax.ShapeDtypeStruct((64, 64), jnp.float32)


def step(x: Any) -> Any:
    return x @ x


def test_a_plan_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(mw.ArgumentError, match="cannot be read"):
        mw.verify(tmp_path / "no.json", step, X)


@pytest.mark.parametrize("plan", [None, 3])
def test_no_plan(plan: Any) -> None:
    with pytest.raises(mw.ArgumentError, match="is no plan"):
        mw.verify(plan, step, X)


def test_a_cluster_that_its_name_does_not_find() -> None:
    plan = msgspec.structs.replace(mw.plan(step, X, cluster="h100:1x8"), cluster="ours")
    with pytest.raises(mw.ArgumentError, match="pass cluster="):
        mw.verify(plan, step, X)


def test_another_cluster_or_program() -> None:
    plan = mw.plan(step, X, cluster="h100:1x8")
    with pytest.raises(mw.PlanMismatchError, match="the cluster"):
        mw.verify(plan, step, X, cluster="h200:1x8")
    with pytest.raises(mw.PlanMismatchError, match="the computation"):
        mw.verify(plan, lambda x: x + x, X)


def test_a_plan_for_cpus() -> None:
    plan = mw.plan(step, X, cluster="cpu:8")
    with pytest.raises(mw.UnsupportedError, match="TPU or GPU"):
        mw.verify(plan, step, X)
