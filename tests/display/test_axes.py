"""What is said of each mesh axis."""

import pytest

from meshwright.compiler.display import format_plan
from meshwright.compiler.display.axes import axis_lines


def use(kind, axes, seconds):
    """A collective of a given time."""
    place = {"value": "%1", "op": "add", "source": ""}
    return {"kind": kind, "axes": axes, "bytes": 8, "count": 1, "seconds": seconds, **place}


def test_arguments_are_counted_and_collectives_summed(plans):
    arguments = [
        plans.array("state/w1", (64, 64), (None, "model")),
        plans.array("state/w2", (64, 64), ("model", None)),
        plans.array("state/b", (64,)),
        plans.array("state/count", ()),
        plans.array("batch/x", (32, 64), ("data", None)),
        plans.array("batch/y", (32,), ("data",)),
    ]
    sent = [use("all-reduce", ["data"], 2e-3), use("all-gather", ["model"], 1e-3)]
    sent += [use("all-reduce", ["data", "model"], 4e-3), use("all-reduce", ["data"], 1e-3)]
    lines = list(axis_lines(plans.build(arguments=arguments, collectives=sent)))
    assert lines == [
        ("axis data=2", "splits all 2 arrays of batch (dim 0); sends all-reduce 7 ms"),
        ("axis model=4", "splits 2 of 3 arrays of state; sends all-reduce 4 ms, all-gather 1 ms"),
    ]


def test_a_name_says_nothing_and_the_line_does(plans):
    """Tensor parallelism on the axis that is called data by its place."""
    arguments = [plans.array("w", (64, 128), (None, "data")), plans.array("x", (32, 64))]
    mesh = {"shape": [8], "axis_names": ["data"]}
    sent = [use("all-gather", ["data"], 5e-5)]
    plan = plans.build(mesh=mesh, arguments=arguments, results=[], collectives=sent)
    assert list(axis_lines(plan)) == [("axis data=8", "splits w (dim 1); sends all-gather 50 us")]
    assert "\naxis data=8 splits w (dim 1); sends all-gather 50 us\n" in format_plan(plan)


def test_an_axis_that_splits_only_inner_values(plans):
    layouts = [{"spec": []}, {"spec": [["model"]]}]
    arguments = [plans.array("x", (32, 64), ("data", None))]
    plan = plans.build(arguments=arguments, results=[], layouts=layouts, values=[0, 1, -1, 1])
    assert list(axis_lines(plan)) == [
        ("axis data=2", "splits x (dim 0); sends nothing"),
        ("axis model=4", "splits no argument, but 2 values inside and 0 results; sends nothing"),
    ]


def test_an_axis_without_use(plans):
    plan = plans.build(arguments=[plans.array("x", (32, 64), ("data", None))], results=[])
    assert list(axis_lines(plan))[1] == ("axis model=4", "splits nothing: its 4 devices do the same work")


def test_many_arguments_and_long_lines_are_cut(plans):
    arguments = [plans.array(f"weight_number_{i}", (64, 64), ("data", None)) for i in range(7)]
    plan = plans.build(arguments=arguments, collectives=[use("all-reduce", ["data"], 1e-3)])
    split, sent = next(iter(axis_lines(plan)))[1].split("\n")
    assert split.endswith("weight_number_3 (dim 0), 3 more arguments;")
    assert sent == "sends all-reduce 1 ms"


def test_a_plan_that_splits_nothing_says_why(plans):
    whole = {
        "arguments": [plans.array("w", (64, 128))],
        "results": [plans.array("", (64, 128))],
        "costs": {"compute_s": 12.3e-6, "communication_s": 0.0},
    }
    text = format_plan(plans.build(**whole))
    why = "not split   all 8 devices do the same 12.3 us: no split found saves more than its sending costs"
    assert why in text.splitlines()
    assert "axis " not in text


@pytest.mark.parametrize(
    "changed",
    [
        {"results": [["data"]]},
        {"layouts": [{"spec": []}, {"spec": [[], ["model"]]}]},
        {"collectives": [use("all-reduce", ["data"], 1e-3)]},
    ],
    ids=["result", "value", "sends"],
)
def test_whatever_is_split_counts(plans, changed):
    fields = {"arguments": [plans.array("w", (64,))], "results": []} | changed
    if "results" in changed:
        fields["results"] = [plans.array("", (64,), ("data",))]
    assert "not split" not in format_plan(plans.build(**fields))


def test_one_device_needs_no_word(plans):
    alone = plans.build(mesh={"shape": [1], "axis_names": ["data"]}, arguments=[], results=[], num_devices=1)
    assert list(axis_lines(alone)) == []
