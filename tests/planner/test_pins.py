"""Pins: patterns over paths, layouts of specs, and every complaint with what it must name."""

from __future__ import annotations

import re
from typing import Any

import jax
import pytest
from jax.sharding import PartitionSpec as P

from meshwright.compiler.errors import IndivisibleError, PinError
from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.ir import Program
from meshwright.compiler.planner.layout import Layout
from meshwright.compiler.planner.pin_option import pinned_axes
from meshwright.compiler.planner.pins import matching, resolve_pins
from meshwright.cost_models.cluster import Cluster
from meshwright.cost_models.mesh import LogicalMesh

MESH = LogicalMesh(Cluster.load("cpu:8"), (2, 4), ("data", "model"))


def _program() -> Program:
    f32 = lambda *shape: jax.ShapeDtypeStruct(shape, "float32")  # noqa: E731
    mlp = {"kernel": f32(16, 8), "bias": f32(8)}
    state = {"params": {"block_0": {"mlp": mlp}, "block_1": {"mlp": mlp}}, "step": f32()}
    return trace_program(lambda state, batch: (state, batch.sum()), TraceOptions(), (state, f32(6, 16)), {})


PROGRAM = _program()


def resolved(pins: dict[str, Any]) -> dict[str, Layout]:
    return {PROGRAM.in_paths[i]: x for i, x in resolve_pins(PROGRAM, MESH, pins).items()}


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("state/params/block_0/mlp/kernel", True),
        ("params/block_0/mlp/kernel", True),
        ("kernel", True),
        ("*/kernel", True),
        ("params/*/kernel", True),
        ("state/*", True),
        ("*", True),
        ("block_[01]/mlp/kernel", True),
        ("block_?/*", True),
        ("ernel", False),
        ("mlp", False),
        ("params", False),
        ("block_1/mlp/kernel", False),
        ("KERNEL", False),
        ("kernel/*", False),
    ],
)
def test_patterns_name_paths_or_their_tails(pattern: str, matches: bool) -> None:
    assert matching(["state/params/block_0/mlp/kernel"], pattern) == [0] * matches


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("x/w[0]", [1]),
        ("w[0]", [1, 2]),
        ("w[01]", [0]),
        ("w[*", [1, 2]),
        ("x/w0", [0]),
        ("w", [3]),
        ("*w", [3, 4]),
        ("b/w[1]", []),
    ],
)
def test_a_pattern_that_is_a_path_is_no_glob(pattern: str, matches: list[int]) -> None:
    assert matching(["x/w0", "x/w[0]", "a/w[0]", "w", "x/w"], pattern) == matches


def test_layouts_of_specs() -> None:
    found = resolved(
        {
            "block_0/mlp/kernel": P(None, "model"),
            "block_1/mlp/kernel": P(("data", "model")),
            "block_0/mlp/bias": P(("model", "data")),
            "block_1/mlp/bias": P(),
            "state/step": P(),
        }
    )
    assert found == {
        "state/params/block_0/mlp/kernel": Layout(((), (1,))),
        "state/params/block_1/mlp/kernel": Layout(((0, 1), ())),
        "state/params/block_0/mlp/bias": Layout(((1, 0),)),
        "state/params/block_1/mlp/bias": Layout(((),)),
        "state/step": Layout(()),
    }


def test_one_pattern_pins_all_it_matches() -> None:
    assert set(resolved({"mlp/kernel": P("data")})) == {
        "state/params/block_0/mlp/kernel",
        "state/params/block_1/mlp/kernel",
    }


def test_the_last_pin_wins() -> None:
    found = resolved({"kernel": P("data"), "block_1/mlp/kernel": P("model")})
    assert found["state/params/block_0/mlp/kernel"] == Layout(((0,), ()))
    assert found["state/params/block_1/mlp/kernel"] == Layout(((1,), ()))


def test_no_pins() -> None:
    assert resolved({}) == {}
    assert pinned_axes({}) == frozenset()


def test_axes_named_by_pins() -> None:
    assert pinned_axes({"a": P(None, ("x", "y")), "b": P("z")}) == {"x", "y", "z"}


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        ({"block_0/mpl/kernel": P()}, r"'block_0/mpl/kernel' matches no argument.*block_0/mlp/kernel"),
        ({"zzz": P()}, r"'zzz' matches no argument; the nearest paths are 'state"),
        ({"kernel": P("modle")}, r"'kernel' names the axis 'modle'; the mesh has 'data', 'model'"),
        ({"kernel": P("data", "data")}, r"'kernel' uses an axis twice"),
        ({"kernel": P(("model", "model"))}, r"'kernel' uses an axis twice"),
        ({"mlp/bias": P("data", None)}, r"'mlp/bias' has 2 dims, 'state/params/block_0/mlp/bias' only 1"),
        ({"step": P("data")}, r"'step' has 1 dims, 'state/step' only 0"),
    ],
)
def test_faults_are_explained(pins: dict[str, Any], message: str) -> None:
    with pytest.raises(PinError, match=message):
        resolved(pins)


def test_all_faults_are_listed_once() -> None:
    with pytest.raises(PinError) as caught:
        resolved({"nothing": P(), "kernel": P("x"), "bias": P(None, "data")})
    text = str(caught.value)
    for part in ("'nothing'", "'kernel' names the axis 'x'", "'bias' has 2 dims"):
        assert part in text
    assert len(re.findall("names the axis", text)) == 1


def test_uneven_splits_name_the_dim() -> None:
    with pytest.raises(IndivisibleError) as caught:
        resolved({"batch": P("model")})
    error = caught.value
    assert (error.path, error.dim, error.size, error.parts) == ("batch", 0, 6, 4)
    assert "model" in str(error)
    assert "Pad it to 8" in str(error)


def test_an_even_split_by_a_smaller_axis_passes() -> None:
    assert resolved({"batch": P("data", "model")}) == {"batch": Layout(((0,), (1,)))}
