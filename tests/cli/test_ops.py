"""``meshwright ops``, and the page made from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


def run(*args: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the list must not depend on what other tests have imported."""
    command = [sys.executable, "-m", "meshwright", "ops", *args]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if f"on jax {jax.__version__}:" not in page:
        pytest.skip("the page lists the operations of another jax")
    result = run("--markdown")
    assert result.returncode == 0, result.stderr
    assert result.stdout == page, "run: meshwright ops --markdown > docs/operations.md"


def test_json_has_every_operation_once(cli) -> None:
    rows = json.loads(cli("ops", "--json").stdout)
    names = [row["name"] for row in rows]
    assert len(names) == len(set(names)) > 250
    dot = next(row for row in rows if row["name"] == "dot_general")
    assert dot["origin"] == "Shardy"
    assert "reduced={" in dot["rule"]
    assert dot["checked"] == "tests/rules/test_shard_execution.py"


def test_a_table_for_people(cli) -> None:
    result = cli("ops")
    assert result.exit_code == 0
    assert "\ndot_general " in result.stdout
    assert " operations: " in result.stdout.splitlines()[-2] + result.stdout.splitlines()[-1]
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_one_form_at_a_time(cli) -> None:
    assert cli("ops", "--json", "--markdown").exit_code == 2
