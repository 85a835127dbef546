"""``show``, ``clusters``, global options, and behaviour as a process."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import meshwright
from meshwright.cli import app
from meshwright.cli.platform import plan_on_cpu

COMMANDS = ("plan", "show", "verify", "clusters", "ops", "calibrate", "compare")
PACKAGE = Path(meshwright.__file__).parent
# The front door without its imports: whether it imports jax is not the command line's business.
WITHOUT_FRONT_DOOR = f"""
import sys, types
package = types.ModuleType("meshwright")
package.__path__ = [{str(PACKAGE)!r}]
sys.modules["meshwright"] = package
from meshwright.cli import app
try:
    app(sys.argv[1:])
finally:
    print("jax" in sys.modules, file=sys.stderr)
"""


def run(*args: str, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "meshwright", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(cli, command):
    result = cli(command, "--help", env={"COLUMNS": "120"})
    assert result.exit_code == 0
    assert f"Example: meshwright {command}" in result.stdout


def test_help_lists_commands_and_exit_codes(cli):
    text = cli("--help", env={"COLUMNS": "200"}).stdout
    assert all(command in text for command in COMMANDS)
    assert "4 no plan fits the memory" in text
    assert "--install-completion" in text


def test_version(cli):
    assert cli("--version").stdout == f"meshwright {meshwright.__version__}\n"


@pytest.mark.parametrize("args", [(), ("--debug",)])
def test_no_command_is_wrong_usage_with_the_help(cli, args):
    result = cli(*args)
    assert result.exit_code == 2
    assert all(command in result.stdout for command in COMMANDS)
    assert result.stderr == ""


def test_no_command_is_wrong_usage_as_a_process():
    result = run()
    assert result.returncode == 2
    assert "Usage: meshwright" in result.stdout


def test_an_unknown_command_is_wrong_usage(cli):
    assert cli("plam").exit_code == 2


def test_every_command_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    registered = {info.callback.__name__ for info in app.registered_commands}
    assert registered == set(COMMANDS)
    assert {line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")} >= registered


def test_show_json_is_the_file(cli, plan_file):
    assert json.loads(cli("show", str(plan_file), "--json").stdout) == json.loads(plan_file.read_text())


def test_show_of_a_missing_file(cli, tmp_path):
    result = cli("show", str(tmp_path / "no.json"))
    assert result.exit_code == 5
    assert "cannot be read: No such file" in result.stderr


@pytest.mark.parametrize(
    "content", ["", "{}", "not json", '{"format": "other", "version": 1, "checksum": "", "plan": {}}']
)
def test_show_of_no_plan(cli, tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_text(content)
    assert cli("show", str(path)).exit_code == 5


def test_show_of_an_altered_plan(cli, altered_plan):
    result = cli("show", str(altered_plan))
    assert result.exit_code == 5
    assert result.stderr.startswith("error: ")
    assert "altered" in result.stderr


def test_clusters_lists_every_record(cli):
    text = cli("clusters").stdout
    assert all(f"\n{name} " in text for name in meshwright.Cluster.names())
    assert max(map(len, text.splitlines())) <= 100


def test_clusters_json(cli):
    records = {r["name"]: r for r in json.loads(cli("clusters", "--json").stdout)}
    assert set(records) == set(meshwright.Cluster.names())
    assert records["h100"]["peak"]["bf16"] == meshwright.Cluster.load("h100:8").hardware.peak_flops(
        "bfloat16"
    )


@pytest.mark.parametrize("name", meshwright.Cluster.names())
def test_every_number_has_its_source(cli, name):
    numbers = json.loads(cli("clusters", name, "--json").stdout)["numbers"]
    assert all(entry["source"] for entry in numbers.values())
    text = cli("clusters", f"{name}:8").stdout
    assert all(key in text for key in numbers)
    assert "memory.bandwidth" in numbers


def test_unknown_hardware(cli):
    result = cli("clusters", "h10")
    assert result.exit_code == 3
    assert "h100" in result.stderr


def test_output_into_a_pipe_is_plain():
    result = run("clusters", env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "40"})
    assert result.returncode == 0
    assert "\x1b" not in result.stdout
    assert result.stdout.startswith(" " * 20)
    assert result.stderr == ""


def test_a_reader_that_stops_is_no_error():
    command = f"{sys.executable} -m meshwright clusters h100 | head -n 1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120, check=False)
    assert "H100" in result.stdout
    assert "Traceback" not in result.stderr


def test_progress_goes_to_a_terminal_only(plan_args):
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "meshwright", *plan_args], stdout=subprocess.PIPE, stderr=slave, text=True
    )
    os.close(slave)
    shown = b""
    while chunk := _read(master):
        shown += chunk
    stdout, _ = process.communicate(timeout=120)
    os.close(master)
    assert process.returncode == 0
    assert b"planning" in shown
    assert stdout.startswith("train_step on cpu:8")
    assert "\x1b" not in stdout


def _read(terminal: int) -> bytes:
    """What a terminal shows next; nothing once its last writer has gone (Linux says EIO)."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


@pytest.mark.parametrize("command", ["show", "clusters"])
def test_looking_needs_no_jax(plan_file, command):
    args = [command, str(plan_file)] if command == "show" else [command]
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_FRONT_DOOR, *args],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr.splitlines()[-1] == "False"


def test_planning_stays_off_accelerators_unless_told(monkeypatch):
    monkeypatch.delenv("JAX_PLATFORMS")
    plan_on_cpu()
    assert os.environ["JAX_PLATFORMS"] == "cpu"
    monkeypatch.setenv("JAX_PLATFORMS", "cuda,cpu")
    plan_on_cpu()
    assert os.environ["JAX_PLATFORMS"] == "cuda,cpu"
