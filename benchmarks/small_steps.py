"""Small training steps, decorated and as ``jax.jit`` with the decorated one's shardings."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

import meshwright as mw

_COLLECTIVE = re.compile(
    r" (?:all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
)

Step = Callable[[Any, Any], tuple[Any, jax.Array]]


def mlp_step() -> tuple[Step, tuple[Any, Any]]:
    """Two layers with SGD: four arrays of state, the least a training step can be."""
    params = _layers((32, 64, 8))

    def step(state: Any, batch: Any) -> tuple[Any, jax.Array]:
        loss, grads = jax.value_and_grad(_loss)(state, batch)
        return jax.tree.map(lambda p, g: p - 0.1 * g, state, grads), loss

    return step, (params, _batch(32, 8))


def many_leaves_step() -> tuple[Step, tuple[Any, Any]]:
    """Sixteen layers with adamw: about a hundred arrays of state, as in a flax ``TrainState``."""
    params = _layers((16,) * 17)
    optimizer = optax.adamw(1e-3)

    def step(state: Any, batch: Any) -> tuple[Any, jax.Array]:
        loss, grads = jax.value_and_grad(_loss)(state["params"], batch)
        updates, opt_state = optimizer.update(grads, state["opt_state"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "opt_state": opt_state, "step": state["step"] + 1}, loss

    state = {"params": params, "opt_state": optimizer.init(params), "step": jnp.zeros((), jnp.int32)}
    return step, (state, _batch(16, 16))


STEPS: dict[str, Callable[[], tuple[Step, tuple[Any, Any]]]] = {
    "mlp": mlp_step,
    "many-leaves": many_leaves_step,
}


def both_ways(name: str, donated: bool) -> tuple[Step, Step, tuple[Any, Any], tuple[int, int]]:
    """A step decorated and under ``jax.jit``.

    Args:
        name: one of ``STEPS``.
        donated: whether the state is donated.

    Returns:
        The decorated step; the jitted one with the same shardings of arguments and results; arguments,
        already where the plan wants them; the collectives of the two compiled programs.
    """
    step, args = STEPS[name]()
    options: dict[str, Any] = {"donate_argnums": 0} if donated else {}
    planned = mw.autoparallel(step, **options)
    compiled = planned.lower(*args).compile()
    in_shardings, _ = compiled.input_shardings
    plain = jax.jit(step, in_shardings=in_shardings, out_shardings=compiled.output_shardings, **options)
    placed = jax.device_put(args, in_shardings)
    programs = (compiled, plain.lower(*placed).compile())
    return planned, plain, placed, (_num_collectives(programs[0]), _num_collectives(programs[1]))


def _num_collectives(compiled: jax.stages.Compiled) -> int:
    return len(_COLLECTIVE.findall(compiled.as_text() or ""))


def _layers(widths: tuple[int, ...]) -> Any:
    keys = jax.random.split(jax.random.key(0), len(widths))
    return [
        {"weight": jax.random.normal(key, (n, m)) * n**-0.5, "bias": jnp.zeros(m)}
        for key, n, m in zip(keys, widths[:-1], widths[1:], strict=False)
    ]


def _loss(params: Any, batch: Any) -> jax.Array:
    x, y = batch
    for layer in params:
        x = jnp.tanh(x @ layer["weight"] + layer["bias"])
    return jnp.mean((x - y) ** 2)


def _batch(width: int, classes: int) -> tuple[jax.Array, jax.Array]:
    key = jax.random.key(1)
    return jax.random.normal(key, (64, width)), jax.random.normal(key, (64, classes))
