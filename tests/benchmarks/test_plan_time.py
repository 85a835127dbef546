"""``python -m benchmarks.plan_time`` in its quick form."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import meshwright as mw
from benchmarks.models import MODELS, make_workload
from benchmarks.phases import timed_plan
from benchmarks.plan_time import Case, ModelName, Row, cases, measure, measure_tight
from meshwright.compiler.planner import PlanOptions, search

ROOT = Path(__file__).resolve().parents[2]
KEYS = {f.name for f in dataclasses.fields(Row)}
PHASES = ("rules_s", "model_s", "solve_s", "extract_s")


def _rows(*options: str) -> list[dict[str, object]]:
    command = [sys.executable, "-m", "benchmarks.plan_time", "--quick", "--json", *options]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_one_row_has_the_promised_keys() -> None:
    (row,) = _rows("--model", "mlp", "--layers", "1", "--mesh", "2x4")
    assert set(row) == KEYS
    assert (row["model"], row["layers"], row["mesh"], row["cluster"]) == ("mlp", 1, "2x4", "h100:1x8")
    assert isinstance(row["planned_s"], float)


@pytest.mark.slow
def test_the_whole_table_in_its_quick_form() -> None:
    rows = _rows("--layers", "1")
    assert [set(row) for row in rows] == [KEYS] * 6
    assert [row["cluster"] for row in rows] == ["h100:1x8", "h100:8x8", *["h100:1x8"] * 4]
    assert rows[-1]["budget_mib"] is not None


def test_the_timed_plan_is_the_plan_a_user_gets() -> None:
    workload = make_workload("mlp", 2, quick=True)
    cluster = mw.Cluster.load("h100:1x8")
    before = search.solve, search.ModelBuilder.build
    timed = timed_plan(workload, cluster, PlanOptions())
    assert timed.plan.hash == mw.plan(workload.step, *workload.args, cluster=cluster).hash
    assert (search.solve, search.ModelBuilder.build) == before


def test_phases_take_time_and_fit_into_the_total() -> None:
    timed = timed_plan(make_workload("mlp", 2, quick=True), mw.Cluster.load("cpu:4"), PlanOptions())
    spent_s = [getattr(timed, name) for name in PHASES]
    assert all(s > 0 for s in spent_s)
    assert sum(spent_s) <= timed.planned_s


def test_the_tight_row_plans_in_less_memory() -> None:
    case = Case("mlp", 2, "h100:1x8", "2x4", quick=True)
    free = measure(case)
    tight = measure_tight(case, free, (0.9,))
    assert tight.budget_mib is not None
    assert tight.memory_mib <= tight.budget_mib
    assert tight.objective_ms >= free.objective_ms * (1 - 1e-9)


def test_a_share_that_nothing_fits_gives_a_little_over_the_least_budget() -> None:
    case = Case("mlp", 1, "h100:1x8", "2x4", quick=True)
    free = measure(case)
    tight = measure_tight(case, free, (0.001, 0.01))
    assert tight.budget_mib is not None
    assert 0.01 * free.memory_mib < tight.budget_mib
    assert tight.memory_mib <= tight.budget_mib


def test_every_model_can_be_named() -> None:
    assert [name.value for name in ModelName] == list(MODELS)


def test_the_default_rows_cover_both_depths_both_clusters_search_and_scan() -> None:
    chosen = cases((12, 32), quick=False)
    unrolled = {(c.layers, c.cluster, c.mesh) for c in chosen if c.model == "decoder"}
    wheres = (("h100:1x8", "2x4"), ("h100:8x8", "8x8"), ("h100:1x8", None))
    assert unrolled == {(layers, *where) for layers in (12, 32) for where in wheres}
    assert [(c.layers, c.mesh) for c in chosen if c.model == "decoder-scan"] == [(32, "2x4")]
