"""A byte-level GPT on the sources of Python's standard library: flax and optax, written for one device.

`python examples/gpt.py` plans the training step for 8 virtual CPU devices, prints the plan, trains, then
trains the same on one device and compares. Nothing in `Model` or `train_step` knows about devices.

    meshwright plan examples/gpt.py:train_step --args examples/gpt.py:example_args --cluster h100:1x8
"""

import functools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import typer
from flax.training.train_state import TrainState

import meshwright as mw

# So that the file can also be loaded by its path.
sys.path.insert(0, str(Path(__file__).resolve().parent))
import common

Batch = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """Sizes of the model and of one batch, and the optimizer's numbers."""

    layers: int = 4
    width: int = 128
    heads: int = 4
    length: int = 128
    batch: int = 24
    vocabulary: int = 256
    learning_rate: float = 3e-3
    warmup_steps: int = 20
    steps: int = 100


class Attention(nn.Module):
    """Causal self-attention. No key bias: softmax cancels it, its gradient is only rounding."""

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps [batch, length, width] to the same shape."""
        length, width = x.shape[-2:]
        shape = (self.heads, width // self.heads)
        query, key, value = (
            nn.DenseGeneral(shape, use_bias=False, name=name)(x) for name in ("query", "key", "value")
        )
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / jnp.sqrt(shape[1])
        causal = jnp.tril(jnp.ones((length, length), bool))
        weights = jax.nn.softmax(jnp.where(causal, scores, -1e9))
        mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, value)
        return nn.DenseGeneral(width, axis=(-2, -1), name="out")(mixed)


class Block(nn.Module):
    """Attention and a feed-forward layer, each after a normalisation and beside a residual."""

    heads: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps [batch, length, width] to the same shape."""
        width = x.shape[-1]
        x = x + Attention(self.heads, name="attention")(nn.LayerNorm()(x))
        hidden = nn.gelu(nn.Dense(4 * width, name="up")(nn.LayerNorm()(x)))
        return x + nn.Dense(width, name="down")(hidden)


class Model(nn.Module):
    """A decoder-only transformer."""

    config: Config

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Maps int32 tokens [batch, length] to logits [batch, length, vocabulary]."""
        config = self.config
        position = self.param("position", nn.initializers.normal(0.02), (config.length, config.width))
        x = nn.Embed(config.vocabulary, config.width, name="embed")(tokens) + position[: tokens.shape[-1]]
        for index in range(config.layers):
            x = Block(config.heads, name=f"block_{index}")(x)
        return nn.Dense(config.vocabulary, name="head")(nn.LayerNorm()(x))


@functools.lru_cache
def build(config: Config) -> tuple[Model, optax.GradientTransformation]:
    """Builds the model and its optimizer; cached, so that equal configurations give equal trees."""
    schedule = optax.warmup_cosine_decay_schedule(
        0.0, config.learning_rate, config.warmup_steps, max(config.steps, config.warmup_steps + 1)
    )
    # The large epsilon keeps Adam from blowing up gradients that are rounding noise.
    adamw = optax.adamw(schedule, b2=0.95, eps=1e-6, weight_decay=0.01)
    return Model(config), optax.chain(optax.clip_by_global_norm(1.0), adamw)


def init_state(key: jax.Array, config: Config = Config()) -> TrainState:
    """Makes the parameters and the optimizer's state."""
    model, optimizer = build(config)
    params = model.init(key, jnp.zeros((1, config.length), jnp.int32))["params"]
    return TrainState.create(apply_fn=model.apply, params=params, tx=optimizer)


def loss_fn(params: Any, state: TrainState, batch: Batch) -> jax.Array:
    """The mean cross-entropy of the next byte, in nats."""
    logits = state.apply_fn({"params": params}, batch["inputs"])
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch["targets"]).mean()


def train_step(state: TrainState, batch: Batch) -> tuple[TrainState, dict[str, jax.Array]]:
    """One step of training, for one device."""
    loss, grads = jax.value_and_grad(loss_fn)(state.params, state, batch)
    return state.apply_gradients(grads=grads), {"loss": loss, "grad_norm": optax.tree.norm(grads)}


def make_batch(config: Config = Config(), seed: int = 0) -> Batch:
    """One batch of the training text: `inputs` and `targets`, int32 [batch, length]."""
    return common.text_batches(common.stdlib_text()[0], config.batch, config.length, 1, seed)[0]


def example_args(config: Config = Config()) -> tuple[TrainState, Batch]:
    """The shapes and types of `train_step`'s arguments; no memory is taken."""
    state = jax.eval_shape(functools.partial(init_state, config=config), jax.random.key(0))
    tokens = jax.ShapeDtypeStruct((config.batch, config.length), jnp.int32)
    return state, {"inputs": tokens, "targets": tokens}


def held_out_loss(state: TrainState, config: Config) -> float:
    """The loss on 8 batches of files that were not trained on."""
    batches = common.text_batches(common.stdlib_text()[1], config.batch, config.length, 8, seed=1)
    evaluate = jax.jit(lambda params, batch: loss_fn(params, state, batch))
    return float(np.mean([evaluate(state.params, batch) for batch in batches]))


def generate(state: TrainState, config: Config, prompt: str = "def ", temperature: float = 0.5) -> str:
    """Continues `prompt` up to the model's length."""
    start = np.frombuffer(prompt.encode(), np.uint8).astype(np.int32)

    def extend(index: jax.Array, tokens: jax.Array) -> jax.Array:
        logits = state.apply_fn({"params": state.params}, tokens)[0, index - 1] / temperature
        token = jax.random.categorical(jax.random.fold_in(jax.random.key(0), index), logits)
        return tokens.at[0, index].set(token)

    tokens = jnp.zeros((1, config.length), jnp.int32).at[0, : len(start)].set(start)
    tokens = jax.jit(lambda t: jax.lax.fori_loop(len(start), config.length, extend, t))(tokens)
    return bytes(np.asarray(tokens[0], np.uint8)).decode(errors="replace")


def main(
    steps: Annotated[int, typer.Option(help="Training steps.", min=1)] = 100,
    layers: Annotated[int, typer.Option(help="Transformer blocks.", min=1)] = 4,
    width: Annotated[int, typer.Option(help="Width of the residual stream.", min=4)] = 128,
    length: Annotated[int, typer.Option(help="Bytes in a window.", min=8)] = 128,
    batch: Annotated[int, typer.Option(help="Windows in a batch.", min=1)] = 24,
    cluster: Annotated[str, typer.Option(help="Where to run; cpu:N makes N virtual devices.")] = "cpu:8",
    mesh: Annotated[str, typer.Option(help="Mesh, as 2x4; left out, the planner chooses.")] = "",
    seed: Annotated[int, typer.Option(help="Seed of the parameters and the batches.")] = 0,
) -> None:
    """Train a byte-level GPT, planned and on one device, and compare."""
    common.use_virtual_devices(cluster)
    config = Config(layers=layers, width=width, length=length, batch=batch, steps=steps)
    batches = common.text_batches(common.stdlib_text()[0], batch, length, steps, seed)
    init, key, size = functools.partial(init_state, config=config), jax.random.key(seed), batch * length

    step = mw.autoparallel(train_step, cluster=mw.Cluster.load(cluster), mesh=mesh or None, donate_argnums=0)
    common.show_plan(step.plan(*example_args(config)))
    planned = common.train(f"{cluster}, planned", step, step.init(init, key), batches, size, "tokens")
    plain = jax.jit(train_step, donate_argnums=0)
    single = common.train("one device, jax.jit", plain, jax.jit(init)(key), batches, size, "tokens")

    # The planned state is brought to one device, so that both are judged by the same program.
    final = jax.device_put(planned.state, jax.devices()[0])
    held_out = ("held-out loss", held_out_loss(final, config), held_out_loss(single.state, config))
    same = common.agree(planned, single, [held_out])
    common.console.rule("a sample of the planned run")
    common.console.print(generate(final, config), markup=False, highlight=False)
    raise typer.Exit(0 if same else 1)


if __name__ == "__main__":
    common.run(main)
