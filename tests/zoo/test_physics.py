"""jax-md and brax: simulators and learned potentials, differentiated."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

from tests.zoo.harness import Training, model
from tests.zoo.training import adam, mean_square, normal, train

ATOMS = 16


@model(
    "jax-md",
    "molecular dynamics, Morse parameters by gradient through the simulation",
    own=True,
    kind="physics simulation",
)
def test_fluid() -> Training:
    jax_md = pytest.importorskip("jax_md")
    displacement, shift = jax_md.space.periodic(8.0)
    grid = jnp.stack(jnp.meshgrid(*[jnp.arange(4.0) * 2.0] * 2), -1).reshape(-1, 2)
    places = grid + normal(0, ATOMS, 2, scale=0.1)

    def loss(params: Any, places: jax.Array, target: jax.Array) -> jax.Array:
        energy = jax_md.energy.morse_pair(displacement, **params)
        init, advance = jax_md.simulate.nve(energy, shift, dt=1e-3)
        state = init(jax.random.key(0), places, kT=0.1)
        state = jax.lax.fori_loop(0, 4, lambda _, state: advance(state), state)
        return mean_square(state.position, target)

    params = {"sigma": jnp.float32(1.5), "epsilon": jnp.float32(1.0)}
    return train(loss, params, (places, grid), optax.sgd(1e-2))


@model(
    "jax-md",
    "Behler-Parrinello potential, energy and forces",
    own=True,
    kind="energy, gradient of a gradient",
)
def test_behler_parrinello() -> Training:
    jax_md = pytest.importorskip("jax_md")
    from flax import nnx

    displacement, _ = jax_md.space.free()
    energy = jax_md.energy.behler_parrinello(displacement, key=jax.random.key(0), mlp_sizes=(16, 16))
    graph, params, others = nnx.split(energy.model, nnx.Param, ...)
    places, forces = normal(0, 8, 6, 3, scale=2.0), normal(1, 8, 6, 3, scale=0.1)

    def loss(params: Any, places: jax.Array, forces: jax.Array) -> jax.Array:
        net = nnx.merge(graph, params, others)
        return mean_square(-jax.vmap(jax.grad(net))(places), forces)

    return train(loss, params, (places, forces))


@model("brax", "analytic policy gradient through the pendulum", own=True, kind="physics simulation")
def test_pendulum() -> Training:
    envs = pytest.importorskip("brax.envs")
    env = envs.get_environment("inverted_pendulum", backend="generalized")
    start = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 8))
    params = {"w": normal(0, 4, 16, scale=0.3), "v": normal(1, 16, 1, scale=0.3)}
    optimizer = adam()

    def loss(params: Any, start: Any) -> jax.Array:
        def advance(state: Any, _: None) -> tuple[Any, jax.Array]:
            action = jnp.tanh(jnp.tanh(state.obs @ params["w"]) @ params["v"])
            state = jax.vmap(env.step)(state, action)
            return state, jnp.square(state.obs).mean()

        return jax.lax.scan(advance, start, None, length=2)[1].mean()

    def step(state: Any, start: Any) -> tuple[Any, Any]:
        params, moments = state
        value, grads = jax.value_and_grad(loss)(params, start)
        updates, moments = optimizer.update(grads, moments)
        return (optax.apply_updates(params, updates), moments), value

    return Training(step, (params, optimizer.init(params)), (start,))


@model(
    "jax-md", "graph network potential, energy and forces", own=True, kind="energy, gradient of a gradient"
)
def test_graph_potential() -> Training:
    jax_md = pytest.importorskip("jax_md")
    from flax import nnx

    displacement, _ = jax_md.space.free()
    energy = jax_md.energy.graph_network(displacement, 3.0, key=jax.random.key(0), mlp_sizes=(16, 16))
    graph, params, others = nnx.split(energy.model, nnx.Param, ...)
    places, forces = normal(0, 8, 6, 3, scale=1.5), normal(1, 8, 6, 3, scale=0.1)

    def loss(params: Any, places: jax.Array, forces: jax.Array) -> jax.Array:
        net = nnx.merge(graph, params, others)
        return mean_square(-jax.vmap(jax.grad(net))(places), forces)

    return train(loss, params, (places, forces))
