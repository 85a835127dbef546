"""``meshwright plan``: options, output, errors and exit codes."""

import json

import pytest

from meshwright.compiler.plan import Plan
from meshwright.compiler.planner.templates.catalogue import TEMPLATES


def test_prints_the_plan(cli, plan_args):
    result = cli(*plan_args)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("train_step on cpu:8 (8 devices), mesh ")
    assert "params" in result.stdout
    assert result.stderr == ""


def test_saves_what_it_prints(cli, plan_file):
    plan = Plan.load(plan_file)
    assert (plan.mesh.shape, plan.mesh.axis_names) == ((2, 4), ("data", "model"))
    assert cli("show", str(plan_file)).stdout == f"{plan}\n"


def test_json_is_a_plan_file(cli, plan_args, tmp_path):
    result = cli(*plan_args, "--json", "--mesh", "8")
    path = tmp_path / "piped.json"
    path.write_text(result.stdout)
    assert Plan.load(path).mesh.shape == (8,)


def test_what_the_users_code_prints_does_not_mix_with_the_plan(cli, plan_args, program, tmp_path):
    at = plan_args.index("--args") + 1
    talkative = [*plan_args[:at], f"{program}:talkative_args", *plan_args[at + 1 :]]
    result = cli(*talkative, "--json", "--mesh", "8")
    path = tmp_path / "piped.json"
    path.write_text(result.stdout)
    assert Plan.load(path).mesh.shape == (8,)
    assert "a user's own output" in result.stderr


def test_options_reach_the_planner(cli, plan_args):
    options = ["--mesh", "data=2,model=4", "--budget", "1GiB", "--effort", "1", "--donate", "params"]
    pins = ["--pin", "up=None,model", "--pin", "batch=data"]
    result = cli(*plan_args, *options, *pins, "--json")
    assert result.exit_code == 0, result.stderr
    plan = json.loads(result.stdout)["plan"]
    specs = {a["path"]: a for a in plan["arguments"]}
    assert specs["params/up"]["spec"] == [[], ["model"]]
    assert specs["batch"]["spec"] == [["data"], []]
    assert [specs[p]["donated"] for p in ("params/up", "params/down", "batch")] == [True, True, False]
    assert (plan["budget_bytes"], plan["certificate"]["effort"]) == (2**30, 1)


def test_a_decorated_function_keeps_its_options(cli, program):
    args = ("--args", f"{program}:example_args", "-c", "cpu:8", "--json")
    result = cli("plan", f"{program}:planned_step", *args)
    assert result.exit_code == 0, result.stderr
    plan = json.loads(result.stdout)["plan"]
    assert plan["arguments"][0]["donated"] is True
    assert plan["certificate"]["effort"] == 1
    result = cli("plan", f"{program}:planned_step", *args, "--effort", "0", "--time-limit", "600")
    assert json.loads(result.stdout)["plan"]["certificate"]["effort"] == 0


def test_a_single_argument_needs_no_tuple(cli, program):
    result = cli("plan", f"{program}:total", "--args", f"{program}:one_array", "-c", "cpu:4")
    assert result.exit_code == 0, result.stderr


def test_targets_in_modules_and_classes(cli, program, monkeypatch):
    monkeypatch.chdir(program.rsplit("/", 1)[0])
    result = cli("plan", "program:Holder.step", "--args", "program:example_args", "-c", "cpu:2")
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"target": "no_colon"}, 3, "package.module:function"),
        ({"target": "programm.py:f"}, 3, "no such file"),
        ({"target": "no_such_module_here:f"}, 3, "no module named 'no_such_module_here'"),
        ({"target": "{program}:train_stp"}, 3, "did you mean train_step"),
        ({"target": "{program}:LEARNING_RATE"}, 3, "float, which cannot be called"),
        ({"target": "{program}:untraceable", "args": "{program}:one_array"}, 3, "cannot be traced"),
        ({"args": "{program}:failing_args"}, 3, "FileNotFoundError: no data"),
        ({"args": "{program}:train_step"}, 3, "called without arguments"),
        ({"cluster": "h10:8"}, 3, "h100"),
        ({"mesh": "3x5"}, 3, "15"),
        ({"pin": "params/upp=None,model", "mesh": "data=2,model=4"}, 3, "params/up"),
        ({"output": "/no/such/folder/plan.json"}, 3, "cannot be saved"),
        ({"budget": "1KiB"}, 4, "the least that works"),
        ({"mesh": "2y4"}, 2, "--mesh"),
        ({"budget": "lots"}, 2, "--budget"),
        ({"pin": "up"}, 2, "--pin"),
        ({"effort": "9"}, 2, "--effort"),
    ],
)
def test_errors_are_one_message_and_a_code(cli, program, changes, code, message):
    values = {"args": "{program}:example_args", "cluster": "cpu:8"} | changes
    target = values.pop("target", "{program}:train_step")
    options = [
        text.format(program=program) for name, value in values.items() for text in (f"--{name}", value)
    ]
    result = cli("plan", target.format(program=program), *options)
    assert result.exit_code == code, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_debug_shows_the_traceback(cli, plan_args):
    result = cli("--debug", *plan_args[:-1], "h10:8")
    assert result.exit_code == 3
    assert "Traceback" in result.stderr


def test_bugs_exit_with_one(cli, plan_args, monkeypatch):
    import meshwright as mw

    def broken(*args, **kwargs):
        raise RuntimeError("a bug")

    monkeypatch.setattr(mw, "plan", broken)
    result = cli(*plan_args)
    assert result.exit_code == 1
    assert isinstance(result.exception, RuntimeError)


def test_a_template_is_kept_to(cli, plan_args):
    result = cli(*plan_args, "--template", "fsdp", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["plan"]["certificate"]["template"] == "fsdp"


def test_the_help_lists_all_templates(cli):
    shown = cli("plan", "--help", env={"COLUMNS": "4000"}).stdout
    line = next(line for line in shown.splitlines() if "--template" in line)
    assert ", ".join(TEMPLATES) in line


def test_a_template_that_does_not_apply(cli, plan_args):
    result = cli(*plan_args, "--template", "expert")
    assert result.exit_code == 3
    assert "has no experts" in result.stderr
    assert "These apply: data," in result.stderr
