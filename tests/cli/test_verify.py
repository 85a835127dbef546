"""``meshwright verify`` on the command line; the compiler is stood in for."""

from __future__ import annotations

import json

import pytest

from meshwright.compiler.verify import MemoryComparison, Timing, VerifyReport


def report(planned: int, compiled: int = 2**32) -> VerifyReport:
    memory = MemoryComparison(planned, compiled, 2**34)
    return VerifyReport("step", "cpu:2", "x 1", (), memory, Timing(1e-3, 0.0), (), "", 1.0)


@pytest.fixture
def answer(monkeypatch):
    """Sets what the verification finds; gives the arguments it was called with."""
    calls = []

    def set_to(found):
        def verify(plan, fun, *args, **options):
            calls.append((plan, fun, args, options))
            return found

        monkeypatch.setattr("meshwright.verify", verify, raising=False)
        return calls

    return set_to


TARGET = ("examples/mlp.py:train_step", "--args", "examples/mlp.py:example_args")


def test_a_plan_that_holds(cli, plan_file, answer):
    calls = answer(report(2**32))
    result = cli("verify", str(plan_file), *TARGET, "--strict", "--timing", "--time-limit", "7")
    assert result.exit_code == 0, result.output
    assert "is what was planned" in result.stdout
    _, fun, args, options = calls[0]
    assert fun.__name__ == "train_step"
    assert len(args) == 2
    assert (options["timing"], options["time_limit_s"], options["cluster"]) == (True, 7.0, None)


def test_a_difference_fails_only_under_strict(cli, plan_file, answer):
    answer(report(2**33))
    assert cli("verify", str(plan_file), *TARGET).exit_code == 0
    result = cli("verify", str(plan_file), *TARGET, "--strict")
    assert result.exit_code == 6
    assert "peak memory" in result.stdout


def test_json_has_the_verdict(cli, plan_file, answer):
    answer(report(2**33))
    found = json.loads(cli("verify", str(plan_file), *TARGET, "--json").stdout)
    assert found["holds"] is False
    assert found["memory"]["planned_bytes"] == 2**33
    assert "peak memory" in found["problems"][0]


def test_a_plan_for_cpus_says_what_can_be_verified(cli, plan_file):
    result = cli("verify", str(plan_file), *TARGET)
    assert result.exit_code in (3, 5)
    assert result.stderr.startswith("error: ")


def test_a_missing_plan(cli, tmp_path):
    assert cli("verify", str(tmp_path / "no.json"), *TARGET).exit_code == 5
