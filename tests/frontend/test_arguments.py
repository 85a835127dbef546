"""How arguments become inputs: pytree paths, donation, static arguments, Python scalars, None."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
import pytest
from flax.training.train_state import TrainState

from meshwright.compiler.frontend import TraceOptions
from tests.frontend.programs import f32, traced


class Pair(NamedTuple):
    first: Any
    second: Any


@functools.partial(jax.tree_util.register_dataclass, data_fields=["w", "b"], meta_fields=["name"])
@dataclass
class Layer:
    w: Any
    b: Any
    name: str = "layer"


def total(*trees: Any, **more: Any) -> jax.Array:
    return sum((x.sum() for x in jax.tree.leaves((trees, more))), jnp.zeros(()))


@pytest.mark.parametrize(
    ("tree", "paths"),
    [
        (f32(2), ["tree"]),
        ({"b": f32(2), "a": {"k": f32(3)}}, ["tree/a/k", "tree/b"]),
        ([f32(2), (f32(3), f32(4))], ["tree/0", "tree/1/0", "tree/1/1"]),
        (Pair(f32(2), [f32(3)]), ["tree/first", "tree/second/0"]),
        (Layer(f32(2), None), ["tree/w"]),
        ({"a": None, "b": f32(2)}, ["tree/b"]),
        ({}, []),
    ],
    ids=["leaf", "dict", "list", "namedtuple", "dataclass", "none", "empty"],
)
def test_paths_of_an_argument(tree: Any, paths: list[str]) -> None:
    program = traced(lambda tree: total(tree), tree)
    assert list(program.in_paths) == paths
    assert [v.path for v in program.graph.inputs] == paths


def test_paths_of_a_train_state() -> None:
    state = TrainState.create(apply_fn=lambda p, x: x, params={"w": jnp.zeros((2, 3))}, tx=optax.adam(1e-3))
    program = traced(lambda state: total(state), state)
    assert set(program.in_paths) == {
        "state/step",
        "state/params/w",
        "state/opt_state/0/count",
        "state/opt_state/0/mu/w",
        "state/opt_state/0/nu/w",
    }
    shapes = {v.path: v.type.shape for v in program.graph.inputs}
    assert shapes["state/opt_state/0/nu/w"] == (2, 3)


def test_keyword_arguments_come_sorted_behind_positional_ones() -> None:
    program = traced(lambda x, **kw: total(x, **kw), f32(1), zeta=f32(2), alpha={"k": f32(3)})
    assert program.in_paths == ("x", "alpha/k", "zeta")
    assert [v.type.shape for v in program.graph.inputs] == [(1,), (3,), (2,)]


def test_positional_arguments_given_by_keyword() -> None:
    def step(state: Any, batch: Any) -> Any:
        return state + batch.sum()

    program = traced(step, f32(2), batch=f32(3))
    assert program.in_paths == ("state", "batch")


def test_variable_arguments_are_numbered() -> None:
    program = traced(lambda x, *rest: total(x, rest), f32(1), f32(2), f32(3))
    assert program.in_paths == ("x", "arg1", "arg2")


class Model:
    def step(self, state: Any, batch: Any) -> Any:
        return state + batch


@pytest.mark.parametrize(
    "fun", [Model().step, jax.jit(Model().step), jax.checkpoint(Model().step)], ids=["method", "jit", "remat"]
)
def test_names_are_seen_through_wrappers(fun: Callable[..., Any]) -> None:
    assert traced(fun, f32(2), f32(2)).in_paths == ("state", "batch")


@pytest.mark.parametrize(
    ("options", "donated"),
    [
        (TraceOptions(), [False, False, False]),
        (TraceOptions(donate_argnums=0), [True, True, False]),
        (TraceOptions(donate_argnames="state"), [True, True, False]),
        (TraceOptions(donate_argnums=(1,)), [False, False, True]),
        (TraceOptions(donate_argnames="batch"), [False, False, True]),
        (TraceOptions(donate_argnames=("state", "batch")), [True, True, True]),
    ],
)
def test_donation(options: TraceOptions, donated: list[bool]) -> None:
    def step(state: Any, batch: Any) -> Any:
        return jax.tree.map(lambda w: w + batch, state)

    program = traced(step, {"b": f32(4), "w": f32(4)}, f32(4), options=options)
    assert list(program.donated) == donated


@pytest.mark.parametrize(
    "options",
    [
        TraceOptions(static_argnums=1),
        TraceOptions(static_argnums=(-2,)),
        TraceOptions(static_argnames="factor"),
        TraceOptions(static_argnames=("factor",)),
    ],
)
def test_static_arguments_are_no_inputs(options: TraceOptions) -> None:
    def scale(x: Any, factor: int, y: Any) -> Any:
        return x * factor + y if factor > 1 else x

    program = traced(scale, f32(4), 3, f32(4), options=options)
    assert program.in_paths == ("x", "y")
    assert traced(scale, f32(4), 1, f32(4), options=options).num_nodes == 0


def test_a_static_position_among_variable_arguments_keeps_the_names_right() -> None:
    options = TraceOptions(static_argnums=1)
    program = traced(lambda a, *rest: a * rest[0] + rest[1], f32(4), 3, f32(4), options=options)
    assert program.in_paths == ("a", "arg1")


def test_python_scalars_are_inputs_of_weak_type() -> None:
    """``bfloat16 * 2.0`` stays bfloat16, so the scalar must have been traced weakly typed."""
    program = traced(lambda x, rate: x * rate, jax.ShapeDtypeStruct((4,), "bfloat16"), 2.0)
    assert [str(v.type) for v in program.graph.inputs] == ["bf16[4]", "f32[]"]
    assert str(program.graph.outputs[0].type) == "bf16[4]"


def test_results_have_paths() -> None:
    program = traced(lambda x: {"loss": x.sum(), "aux": (x, None, [x * 2])}, f32(4))
    assert program.out_paths == ("aux/0", "aux/2/0", "loss")


def test_an_input_handed_through_is_an_output() -> None:
    program = traced(lambda x, y: (y, x), f32(2), f32(3))
    assert program.graph.outputs == program.graph.inputs[::-1]


def test_unused_inputs_stay() -> None:
    program = traced(lambda x, unused: x, f32(2), f32(3))
    assert program.in_paths == ("x", "unused")


def test_random_keys_keep_their_type() -> None:
    key = jax.eval_shape(lambda: jax.random.key(0))
    program = traced(lambda key: jax.random.uniform(key, (4,)), key)
    assert str(program.graph.inputs[0].type) == "key<fry>[]"


def test_trees_rebuild_the_call() -> None:
    program = traced(lambda x, *, k: {"out": x["a"] + k}, {"a": f32(2)}, k=f32(2))
    args, kwargs = jax.tree.unflatten(program.in_tree, program.in_paths)
    assert args == ({"a": "x/a"},)
    assert kwargs == {"k": "k"}
    assert jax.tree.unflatten(program.out_tree, program.out_paths) == {"out": "out"}
