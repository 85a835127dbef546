"""The examples as a user starts them: mistakes are one message, and clusters of CPUs bring their devices."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import meshwright as mw

EXAMPLES = Path(__file__).parents[2] / "examples"
COUNT = "import jax, common; common.use_virtual_devices({!r}); print(jax.device_count())"


def start(*args: str) -> subprocess.CompletedProcess[str]:
    """A process in the examples' folder, where jax has one CPU device unless the code asks for more."""
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    environment["PYTHONPATH"] = str(EXAMPLES.parent)
    command = [sys.executable, *args]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=environment, cwd=EXAMPLES
    )


@pytest.mark.parametrize("name", ["cnn", "gpt", "mlp", "moe"])
def test_an_unknown_cluster_is_one_message(name: str) -> None:
    result = start(f"{name}.py", "--cluster", "h10:8")
    assert result.returncode == 2
    assert result.stderr.startswith("error: Cannot load cluster 'h10:8'")
    assert "Traceback" not in result.stderr


def test_a_mesh_of_another_size_is_one_message() -> None:
    result = start("mlp.py", "--mesh", "3x3", "--steps", "1")
    assert result.returncode == 2
    assert "error: Mesh 3x3 (data, model): the sizes multiply to 9 but cpu:8 has 8" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_malformed_mesh_is_one_message() -> None:
    result = start("mlp.py", "--mesh", "3y3", "--steps", "1")
    assert result.returncode == 2
    assert result.stderr.startswith("error: mesh='3y3' is no mesh")
    assert "Traceback" not in result.stderr


def test_bugs_keep_their_traceback(
    load_example: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("a bug")

    def mistaken() -> None:
        raise mw.PinError("no such path")

    monkeypatch.setattr(sys, "argv", ["example"])
    with pytest.raises(RuntimeError, match="a bug"):
        load_example("common").run(broken)
    with pytest.raises(SystemExit) as left:
        load_example("common").run(mistaken)
    assert left.value.code == 2


def test_a_cluster_file_brings_its_devices(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('hardware = "cpu"\nshape = [1, 3]\n')
    result = start("-c", COUNT.format(str(path)))
    assert result.stdout == "3\n", result.stderr


def test_other_clusters_bring_none() -> None:
    result = start("-c", COUNT.format("h100:8"))
    assert result.stdout == "1\n", result.stderr
