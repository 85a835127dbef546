"""brax' learners: the networks and losses of PPO and SAC on a batch of transitions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

from tests.zoo.harness import Training, model
from tests.zoo.training import adam, normal, train_with

BATCH, SEEN, ACTIONS = 16, 8, 4
KEY = jax.random.PRNGKey(0)


def _transitions(*shape: int, **policy_extras: jax.Array) -> Any:
    """Transitions of no particular environment."""
    types = pytest.importorskip("brax.training.types")
    extras = {"state_extras": {"truncation": jnp.zeros(shape)}, "policy_extras": policy_extras}
    return types.Transition(
        observation=normal(0, *shape, SEEN),
        action=normal(1, *shape, ACTIONS, scale=0.3),
        reward=normal(2, *shape),
        discount=jnp.ones(shape),
        next_observation=normal(3, *shape, SEEN),
        extras=extras,
    )


@model(
    "brax", "PPO: policy and value networks, generalized advantages", own=True, kind="reinforcement learning"
)
def test_ppo() -> Training:
    losses = pytest.importorskip("brax.training.agents.ppo.losses")
    networks = pytest.importorskip("brax.training.agents.ppo.networks")
    net = networks.make_ppo_networks(
        SEEN, ACTIONS, policy_hidden_layer_sizes=(32, 32), value_hidden_layer_sizes=(32, 32)
    )
    params = losses.PPONetworkParams(net.policy_network.init(KEY), net.value_network.init(KEY))
    time = 5
    drawn = normal(5, BATCH, time, ACTIONS, scale=0.3)
    batch = _transitions(
        BATCH,
        time,
        raw_action=drawn,
        log_prob=normal(6, BATCH, time, scale=0.1) - 4,
        distribution_params=normal(7, BATCH, time, 2 * ACTIONS, scale=0.1),
    )

    def loss(params: Any, key: jax.Array, batch: Any) -> Any:
        key, sample = jax.random.split(key)
        return losses.compute_ppo_loss(params, None, batch, sample, net)[0], key

    return train_with(loss, params, jax.random.PRNGKey(1), (batch,))


@model(
    "brax",
    "SAC: actor, two critics and their targets, temperature; three optimizers",
    own=True,
    kind="several optimizers: GAN, actor and critic",
)
def test_sac() -> Training:
    losses = pytest.importorskip("brax.training.agents.sac.losses")
    networks = pytest.importorskip("brax.training.agents.sac.networks")
    net = networks.make_sac_networks(SEEN, ACTIONS, hidden_layer_sizes=(32, 32))
    alpha_loss, critic_loss, actor_loss = losses.make_losses(net, 1.0, 0.95, ACTIONS)
    actor, critic, log_alpha = net.policy_network.init(KEY), net.q_network.init(KEY), jnp.zeros(())
    optimizers = {"alpha": adam(3e-3), "critic": adam(), "actor": optax.sgd(0.05, momentum=0.9)}

    def updated(name: str, params: Any, moments: Any, loss: Any, *rest: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, *rest)
        updates, changed = optimizers[name].update(grads, moments[name], params)
        return value, optax.apply_updates(params, updates), moments | {name: changed}

    def step(state: Any, batch: Any) -> Any:
        actor, critic, target, log_alpha, moments, key = state
        key, *keys = jax.random.split(key, 4)
        alpha = jnp.exp(log_alpha)
        _, log_alpha, moments = updated("alpha", log_alpha, moments, alpha_loss, actor, None, batch, keys[0])
        lost, new_critic, moments = updated(
            "critic", critic, moments, critic_loss, actor, None, target, alpha, batch, keys[1]
        )
        _, actor, moments = updated("actor", actor, moments, actor_loss, None, critic, alpha, batch, keys[2])
        target = optax.incremental_update(new_critic, target, 0.005)
        return (actor, new_critic, target, log_alpha, moments, key), lost

    params = {"alpha": log_alpha, "critic": critic, "actor": actor}
    moments = {name: optimizers[name].init(value) for name, value in params.items()}
    state = (actor, critic, jax.tree.map(jnp.copy, critic), log_alpha, moments, jax.random.PRNGKey(1))
    return Training(step, state, (_transitions(BATCH),))
