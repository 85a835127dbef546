"""A mixture-of-experts decoder on the sources of Python's standard library, written for one device.

`python examples/moe.py` plans the step for 8 virtual CPU devices, trains, then trains the same on one
device and compares. Tokens go to their experts by einsum with a one-hot dispatch tensor (GShard, Lepikhin et
al. 2020, section 3.2), so the experts are a leading dimension that the planner can split.
"""

import functools
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import typer

import meshwright as mw

# So that the file can also be loaded by its path.
sys.path.insert(0, str(Path(__file__).resolve().parent))
import common
from gpt import Attention

Batch = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """Sizes of the model and of one batch, and the optimizer's numbers."""

    layers: int = 2
    width: int = 96
    hidden: int = 192
    experts: int = 8
    heads: int = 4
    length: int = 64
    batch: int = 24
    vocabulary: int = 256
    capacity_factor: float = 2.0
    balance: float = 0.01
    learning_rate: float = 2e-3
    warmup_steps: int = 20

    @property
    def capacity(self) -> int:
        """Tokens of one sequence that one expert takes; the rest pass by on the residual."""
        return min(self.length, math.ceil(2 * self.capacity_factor * self.length / self.experts))


class State(NamedTuple):
    """What a step carries on."""

    params: Any
    opt_state: Any


Step = Callable[[State, Batch], tuple[State, dict[str, jax.Array]]]


class Experts(nn.Module):
    """Each token goes to its two best experts.

    A gate is the router's probability less that of the third-best expert: it is zero where the second and
    the third change places, so the output is continuous and rounding does not make two runs diverge.
    """

    config: Config

    @nn.compact
    def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Maps [batch, length, width] to the same shape and the balance loss (1 when evenly spread)."""
        config = self.config
        shape = (config.experts, config.width, config.hidden)
        scale = nn.initializers.lecun_normal(batch_axis=0)
        up = self.param("up", scale, shape)
        down = self.param("down", scale, (shape[0], shape[2], shape[1]))

        probability = jax.nn.softmax(nn.Dense(config.experts, use_bias=False, name="router")(x))
        best, index = jax.lax.top_k(probability, 3)
        chosen = jax.nn.one_hot(index[..., :2], config.experts, dtype=jnp.int32).sum(axis=-2)
        gates = chosen * (probability - best[..., 2:])
        slot = jnp.where(chosen > 0, jnp.cumsum(chosen, axis=1) - 1, -1)
        dispatch = jax.nn.one_hot(slot, config.capacity)

        taken = jnp.einsum("bsec,bsd->ebcd", dispatch, x)
        hidden = nn.gelu(jnp.einsum("ebcd,edf->ebcf", taken, up))
        given = jnp.einsum("ebcf,efd->ebcd", hidden, down)
        mixed = jnp.einsum("bse,bsec,ebcd->bsd", gates, dispatch, given)
        return mixed, config.experts * jnp.sum(jnp.mean(probability, (0, 1)) ** 2)


class Model(nn.Module):
    """A decoder whose feed-forward layers are mixtures of experts."""

    config: Config

    @nn.compact
    def __call__(self, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Maps int32 tokens [batch, length] to logits [batch, length, vocabulary] and the balance loss."""
        config = self.config
        position = self.param("position", nn.initializers.normal(0.02), (config.length, config.width))
        x = nn.Embed(config.vocabulary, config.width, name="embed")(tokens) + position
        balance = jnp.zeros(())
        for index in range(config.layers):
            x = x + Attention(config.heads, name=f"attention_{index}")(nn.LayerNorm()(x))
            mixed, spread = Experts(config, name=f"experts_{index}")(nn.LayerNorm()(x))
            x, balance = x + mixed, balance + spread / config.layers
        return nn.Dense(config.vocabulary, name="head")(nn.LayerNorm()(x)), balance


@functools.lru_cache
def build(config: Config) -> tuple[Model, optax.GradientTransformation]:
    """Builds the model and its optimizer."""
    schedule = optax.linear_schedule(0.0, config.learning_rate, config.warmup_steps)
    adamw = optax.adamw(schedule, b2=0.95, eps=1e-6)
    return Model(config), optax.chain(optax.clip_by_global_norm(1.0), adamw)


def init_state(key: jax.Array, config: Config = Config()) -> State:
    """Makes the parameters and the optimizer's state."""
    model, optimizer = build(config)
    params = model.init(key, jnp.zeros((1, config.length), jnp.int32))["params"]
    return State(params, optimizer.init(params))


def forward(model: Model, params: Any, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Runs the model: logits [batch, length, vocabulary] and the balance loss."""
    output: Any = model.apply({"params": params}, tokens)
    return output


def cross_entropy(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """The mean cross-entropy of the next byte, in nats."""
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()


@functools.lru_cache
def make_train_step(config: Config) -> Step:
    """Makes the training step of one configuration, for one device."""
    model, optimizer = build(config)

    def loss_fn(params: Any, batch: Batch) -> tuple[jax.Array, jax.Array]:
        logits, balance = forward(model, params, batch["inputs"])
        loss = cross_entropy(logits, batch["targets"])
        return loss + config.balance * balance, loss

    def train_step(state: State, batch: Batch) -> tuple[State, dict[str, jax.Array]]:
        grads, loss = jax.grad(loss_fn, has_aux=True)(state.params, batch)
        updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
        return State(optax.apply_updates(state.params, updates), opt_state), {"loss": loss}

    return train_step


def train_step(state: State, batch: Batch) -> tuple[State, dict[str, jax.Array]]:
    """One step of training at the default sizes, for one device."""
    return make_train_step(Config())(state, batch)


def make_batch(config: Config = Config(), seed: int = 0) -> Batch:
    """One batch of the training text: `inputs` and `targets`, int32 [batch, length]."""
    return common.text_batches(common.stdlib_text()[0], config.batch, config.length, 1, seed)[0]


def example_args(config: Config = Config()) -> tuple[State, Batch]:
    """The shapes and types of `train_step`'s arguments; no memory is taken."""
    state = jax.eval_shape(functools.partial(init_state, config=config), jax.random.key(0))
    tokens = jax.ShapeDtypeStruct((config.batch, config.length), jnp.int32)
    return state, {"inputs": tokens, "targets": tokens}


def held_out_loss(state: State, config: Config) -> float:
    """The loss on 8 batches of files that were not trained on."""
    model = build(config)[0]
    evaluate = jax.jit(lambda p, b: cross_entropy(forward(model, p, b["inputs"])[0], b["targets"]))
    batches = common.text_batches(common.stdlib_text()[1], config.batch, config.length, 8, seed=1)
    return float(np.mean([evaluate(state.params, batch) for batch in batches]))


def main(
    steps: Annotated[int, typer.Option(help="Training steps.", min=1)] = 100,
    layers: Annotated[int, typer.Option(help="Decoder blocks.", min=1)] = 2,
    experts: Annotated[int, typer.Option(help="Experts in a block.", min=3)] = 8,
    batch: Annotated[int, typer.Option(help="Windows in a batch.", min=1)] = 24,
    cluster: Annotated[str, typer.Option(help="Where to run; cpu:N makes N virtual devices.")] = "cpu:8",
    mesh: Annotated[str, typer.Option(help="Mesh, as 2x4; left out, the planner chooses.")] = "",
    seed: Annotated[int, typer.Option(help="Seed of the parameters and the batches.")] = 0,
) -> None:
    """Train a mixture-of-experts decoder, planned and on one device, and compare."""
    common.use_virtual_devices(cluster)
    config = Config(layers=layers, experts=experts, batch=batch)
    batches = common.text_batches(common.stdlib_text()[0], batch, config.length, steps, seed)
    init, key, size = (
        functools.partial(init_state, config=config),
        jax.random.key(seed),
        batch * config.length,
    )
    function = make_train_step(config)

    step = mw.autoparallel(function, cluster=mw.Cluster.load(cluster), mesh=mesh or None, donate_argnums=0)
    common.show_plan(step.plan(*example_args(config)))
    planned = common.train(f"{cluster}, planned", step, step.init(init, key), batches, size, "tokens")
    plain = jax.jit(function, donate_argnums=0)
    single = common.train("one device, jax.jit", plain, jax.jit(init)(key), batches, size, "tokens")

    final = jax.device_put(planned.state, jax.devices()[0])
    held_out = ("held-out loss", held_out_loss(final, config), held_out_loss(single.state, config))
    raise typer.Exit(0 if common.agree(planned, single, [held_out]) else 1)


if __name__ == "__main__":
    common.run(main)
