"""Which outputs are recognised as the next call's state, for the usual shapes of a training step."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
import pytest
from flax.training.train_state import TrainState

from meshwright.compiler.frontend import TraceOptions
from tests.frontend.programs import f32, traced

PARAMS = {"b": f32(3), "w": f32(2, 3)}
BATCH = f32(8, 2)


class Moments(NamedTuple):
    mu: Any
    nu: Any


MOMENTS = Moments(PARAMS, PARAMS)
DONATE = TraceOptions(donate_argnums=0)


def succession(program: Any) -> dict[str, str]:
    """Output path to the path of the input it replaces."""
    pairs = zip(program.out_paths, program.carried, strict=True)
    return {out: program.in_paths[i] for out, i in pairs if i is not None}


def touch(tree: Any) -> Any:
    return jax.tree.map(lambda x: x * 2.0, tree)


@pytest.mark.parametrize("options", [TraceOptions(), DONATE], ids=["kept", "donated"])
def test_state_and_metrics(options: TraceOptions) -> None:
    def step(state: Any, batch: Any) -> Any:
        return touch(state), {"loss": batch.sum()}

    found = succession(traced(step, PARAMS, BATCH, options=options))
    assert found == {"0/b": "state/b", "0/w": "state/w"}


def test_state_alone() -> None:
    assert succession(traced(lambda state: touch(state), PARAMS)) == {"b": "state/b", "w": "state/w"}


def test_state_behind_the_loss() -> None:
    found = succession(traced(lambda state, batch: (batch.sum(), touch(state)), PARAMS, BATCH))
    assert found == {"1/b": "state/b", "1/w": "state/w"}


def test_state_in_a_dict() -> None:
    def step(state: Any, batch: Any) -> Any:
        return {"loss": batch.sum(), "state": touch(state)}

    found = succession(traced(step, PARAMS, BATCH))
    assert found == {"state/b": "state/b", "state/w": "state/w"}


@pytest.mark.parametrize("options", [TraceOptions(), TraceOptions(donate_argnums=(0, 1))])
def test_params_and_optimizer_state(options: TraceOptions) -> None:
    def step(params: Any, opt: Any, batch: Any) -> Any:
        return touch(params), touch(opt), batch.sum()

    found = succession(traced(step, PARAMS, MOMENTS, BATCH, options=options))
    assert found == {
        "0/b": "params/b",
        "0/w": "params/w",
        "1/mu/b": "opt/mu/b",
        "1/mu/w": "opt/mu/w",
        "1/nu/b": "opt/nu/b",
        "1/nu/w": "opt/nu/w",
    }


def test_results_in_another_order_than_arguments() -> None:
    def step(params: Any, opt: Any, batch: Any) -> Any:
        return batch.sum(), touch(opt), touch(params)

    found = succession(traced(step, PARAMS, MOMENTS, BATCH))
    assert found["2/w"] == "params/w"
    assert found["1/nu/b"] == "opt/nu/b"


def test_two_arguments_alike_keep_their_order() -> None:
    """Online and target network: the first goes to the first."""
    found = succession(traced(lambda online, target: (touch(online), touch(target)), PARAMS, PARAMS))
    assert found["0/w"] == "online/w"
    assert found["1/w"] == "target/w"


def test_train_state_of_flax_with_optax() -> None:
    state = TrainState.create(apply_fn=None, params={"w": jnp.zeros((2, 3))}, tx=optax.adam(1e-3))

    def step(state: TrainState, batch: Any) -> Any:
        grads = jax.grad(lambda p: ((batch @ p["w"]) ** 2).sum())(state.params)
        return state.apply_gradients(grads=grads), {"loss": batch.sum()}

    program = traced(step, state, BATCH)
    found = succession(program)
    assert set(found.values()) == set(program.in_paths) - {"batch"}
    assert found["0/opt_state/0/nu/w"] == "state/opt_state/0/nu/w"
    assert "1/loss" not in found


@pytest.mark.parametrize(
    "step",
    [
        lambda state, batch: ({"w": state["w"]}, batch.sum()),
        lambda state, batch: ({**touch(state), "more": batch}, batch.sum()),
        lambda state, batch: ([state["b"], state["w"]], batch.sum()),
        lambda state, batch: (jax.tree.map(lambda x: x.astype("bfloat16"), state), batch.sum()),
        lambda state, batch: ({"b": state["b"], "w": state["w"].T}, batch.sum()),
    ],
    ids=["part", "more", "other-container", "other-dtype", "other-shape"],
)
def test_unlike_structures_are_no_successors(step: Any) -> None:
    assert succession(traced(step, PARAMS, BATCH)) == {}


def test_one_undonated_array_is_an_activation() -> None:
    assert succession(traced(lambda x: x * 2.0, f32(4))) == {}
    assert succession(traced(lambda x: x * 2.0, f32(4), options=DONATE)) == {"": "x"}


def test_parts_of_a_donated_argument_are_matched() -> None:
    def step(state: Any, batch: Any) -> Any:
        return touch(state[0]), touch(state[1]), batch.sum()

    found = succession(traced(step, (PARAMS, MOMENTS), BATCH, options=DONATE))
    assert found["0/w"] == "state/0/w"
    assert found["1/mu/b"] == "state/1/mu/b"


def test_a_donated_array_without_a_successor() -> None:
    donate = TraceOptions(donate_argnums=(0, 1))
    program = traced(lambda state, batch: (state, batch.sum()), f32(4), f32(8), options=donate)
    assert program.carried == (0, None)


def test_a_donated_number_is_not_succeeded_by_the_loss() -> None:
    def step(state: Any, batch: Any) -> Any:
        return {"w": state["w"] * 2.0}, batch.sum()

    program = traced(step, {"w": f32(4), "lr": f32()}, BATCH, options=DONATE)
    assert "1" not in succession(program)


def test_state_given_by_keyword() -> None:
    program = traced(lambda *, state, batch: (touch(state), batch.sum()), state=PARAMS, batch=BATCH)
    assert succession(program) == {"0/b": "state/b", "0/w": "state/w"}


def test_no_output_succeeds_twice() -> None:
    program = traced(lambda a, b: touch(a), PARAMS, PARAMS)
    assert program.carried == (0, 1)
