"""``python -m benchmarks.overhead`` in its quick form."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from benchmarks.overhead import Row, time_pairs
from benchmarks.small_steps import STEPS, both_ways

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_json_has_the_promised_keys() -> None:
    command = [sys.executable, "-m", "benchmarks.overhead", "--quick", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [set(row) for row in rows] == [{f.name for f in dataclasses.fields(Row)}] * 2
    assert all(row["num_devices"] == 8 and row["ratio"] > 0 for row in rows)


@pytest.mark.parametrize("name", STEPS)
def test_both_ways_compute_the_same_with_the_same_shardings(name: str) -> None:
    planned, plain, args, collectives = both_ways(name, donated=False)
    one, other = planned(*args), plain(*args)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.sharding.is_equivalent_to(b.sharding, a.ndim)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert collectives[0] == collectives[1]


def test_the_many_leaves_step_has_about_a_hundred() -> None:
    assert 90 <= len(jax.tree.leaves(STEPS["many-leaves"]()[1])) <= 110


@pytest.mark.parametrize("timed", ["step", "dispatch"])
def test_pairs_call_both_in_turn_each_on_its_own_state(timed: str) -> None:
    calls: list[tuple[str, float]] = []

    def step(name: str):
        def call(state: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
            calls.append((name, float(state)))
            return state + batch, batch

        return call

    args = (jax.numpy.zeros(()), jax.numpy.ones(()))
    times = time_pairs(step("a"), step("b"), args, 3, timed)
    assert len(times) == 3
    assert all(a > 0 and b > 0 for a, b in times)
    assert calls[:4] == [("b", 0.0), ("a", 0.0), ("a", 1.0), ("b", 1.0)]
