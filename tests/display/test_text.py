"""The text of a plan against golden files; ``UPDATE_GOLDEN=1 pytest tests/display`` writes them anew."""

import os
from pathlib import Path

import msgspec
import pytest

from meshwright.compiler.display import format_plan, plan_renderables

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", ["small", "decoder", "pipeline"])
def test_golden(plans, name):
    text = format_plan(getattr(plans, name)()) + "\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "UPDATE_GOLDEN=1 writes the files anew"


def test_str_of_a_plan_is_its_text(plans):
    assert str(plans.small()) == format_plan(plans.small())


def test_the_environment_changes_nothing(plans, monkeypatch):
    expected = format_plan(plans.decoder())
    for name, value in {
        "COLUMNS": "40",
        "FORCE_COLOR": "1",
        "TERM": "xterm-256color",
        "NO_COLOR": "",
    }.items():
        monkeypatch.setenv(name, value)
    assert format_plan(plans.decoder()) == expected


@pytest.mark.parametrize("width", [60, 100, 160])
def test_lines_fit_the_width(plans, width):
    assert max(map(len, format_plan(plans.decoder(), width).splitlines())) <= width


def test_the_summary_says_what_was_planned(plans):
    text = format_plan(plans.decoder())
    for part in (
        "train_step on h100:2x8 (16 devices), mesh data=4 model=4",
        "gap 0.5 %",
        "71.2 GiB",
        "55.4 ms",
    ):
        assert part in text


def test_brackets_are_no_markup(plans):
    assert "[bold]w[/bold]" in format_plan(plans.build(arguments=[plans.array("[bold]w[/bold]", (4, 4))]))


def test_long_lists_are_cut_and_counted(plans):
    many = [plans.array(f"{letter}{letter * i}", (8, 8 + i)) for i in range(40) for letter in "abc"]
    assert "... 40 more rows" in format_plan(plans.build(arguments=many))


def test_columns_keep_numbers_whole_and_break_long_paths_into_levels(plans):
    path = "params/transformer_decoder/~/layer_0/multi_head_attention/~/query_projection/w"
    array = plans.array(path, (1024, 16, 64), ("data", ("model", "expert"), None), "bfloat16")
    mesh = {"shape": [2, 2, 2], "axis_names": ["data", "model", "expert"]}
    use = plans._collective(0) | {"value": f"{path}:bf16[1024,16,64]", "axes": ["data", "model", "expert"]}
    text = format_plan(plans.build(mesh=mesh, arguments=[array], results=[], collectives=[use]), 100)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    at = lines.index("params/transformer_decoder/~ 256 KiB")
    assert lines[at + 1 : at + 3] == ["layer_0 256 KiB", "multi_head_attention/~ 256 KiB"]
    assert lines[at + 3].startswith("query_projection/w bf16[1024,16,64] P('data', ('model', 'expert')) ")
    assert "axis data=2 splits params/.../~/query_projection/w (dim 0); sends all-reduce 4 ms" in lines
    assert any(line.startswith("all-reduce data,model,expert 24 16 MiB 4 ms params/.../w") for line in lines)
    assert max(map(len, text.splitlines())) <= 100


def test_sources_lose_their_folders(plans):
    live = [
        {"name": "add at /home/user/model.py:7", "bytes": 8},
        {"name": "state/params/w:f32[8]", "bytes": 4},
    ]
    memory = {
        "peak_bytes": 12,
        "peak_at": "dot at C:\\code\\a.py:3",
        "curve_bytes": [],
        "state_bytes": 0,
        "largest": live,
    }
    text = format_plan(plans.build(memory=memory))
    assert "in dot at a.py:3;" in text
    assert "add at model.py:7 " in text
    assert "state/params/w:f32[8]" in text


def test_a_plan_without_arrays_or_time_prints(plans):
    empty = plans.build(arguments=[], results=[], costs={"compute_s": 0.0, "communication_s": 0.0})
    assert "step time   0 s" in format_plan(empty)


def test_every_part_renders_in_colour_too(plans):
    from rich.console import Console

    console = Console(record=True, width=100, force_terminal=True, file=open(os.devnull, "w"))  # noqa: SIM115
    for part in plan_renderables(plans.decoder()):
        console.print(part)
    console.file.close()
    assert "P(None, 'model')" in console.export_text()


def test_hand_built_plans_are_plans(plans):
    plan = plans.decoder()
    assert msgspec.convert(msgspec.to_builtins(plan), type(plan)) == plan
