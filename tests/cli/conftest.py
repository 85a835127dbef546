"""Runs the command line in this process, and gives a saved plan."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from meshwright.cli import app

PROGRAM = Path(__file__).with_name("program.py")


@pytest.fixture(scope="session")
def program() -> str:
    """Path of the program under test."""
    return str(PROGRAM)


@pytest.fixture(scope="session")
def cli() -> Callable[..., Any]:
    """Runs the command line with arguments; the result has ``exit_code``, ``stdout`` and ``stderr``."""

    def run(*args: str, env: Mapping[str, str] | None = None) -> Any:
        return CliRunner().invoke(app, list(args), env=env)

    return run


@pytest.fixture(scope="session")
def plan_args(program: str) -> list[str]:
    """Arguments of a ``plan`` command that succeeds."""
    return ["plan", f"{program}:train_step", "--args", f"{program}:example_args", "--cluster", "cpu:8"]


@pytest.fixture(scope="session")
def plan_file(
    cli: Callable[..., Any], plan_args: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A plan saved by ``meshwright plan -o``."""
    path = tmp_path_factory.mktemp("plans") / "plan.json"
    result = cli(*plan_args, "--mesh", "data=2,model=4", "-o", str(path))
    assert result.exit_code == 0, result.stderr
    return path


@pytest.fixture
def altered_plan(plan_file: Path, tmp_path: Path) -> Path:
    """The saved plan with one number changed."""
    content = json.loads(plan_file.read_text())
    content["plan"]["num_devices"] = 9
    path = tmp_path / "altered.json"
    path.write_text(json.dumps(content))
    return path
