"""A small convolutional network on scanned digits: flax and optax, written for one device.

`python examples/cnn.py` plans the step for 8 virtual CPU devices, trains, then trains the same on one
device and compares. Its few weights are cheap to copy, so the planner splits the batch (data parallelism).
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
    """Sizes of the model and of one batch, and the optimizer's rate."""

    channels: tuple[int, ...] = (32, 64)
    hidden: int = 128
    batch: int = 96
    learning_rate: float = 2e-3


class Model(nn.Module):
    """Convolutions, each followed by a halving of the image, then two dense layers."""

    config: Config

    @nn.compact
    def __call__(self, image: jax.Array) -> jax.Array:
        """Maps images [batch, 8, 8, 1] to logits [batch, 10]."""
        x = image
        for channels in self.config.channels:
            x = nn.avg_pool(nn.gelu(nn.Conv(channels, (3, 3))(x)), (2, 2), strides=(2, 2))
        x = nn.gelu(nn.Dense(self.config.hidden)(x.reshape(x.shape[0], -1)))
        return nn.Dense(10)(x)


@functools.lru_cache
def build(config: Config) -> tuple[Model, optax.GradientTransformation]:
    """Builds the model and its optimizer; cached, so that equal configurations give equal trees."""
    return Model(config), optax.adam(config.learning_rate, eps=1e-6)


def init_state(key: jax.Array, config: Config = Config()) -> TrainState:
    """Makes the parameters and the optimizer's state."""
    model, optimizer = build(config)
    params = model.init(key, jnp.zeros((1, 8, 8, 1)))["params"]
    return TrainState.create(apply_fn=model.apply, params=params, tx=optimizer)


def loss_fn(params: Any, state: TrainState, batch: Batch) -> jax.Array:
    """The mean cross-entropy of the label, in nats."""
    logits = state.apply_fn({"params": params}, batch["image"])
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()


def train_step(state: TrainState, batch: Batch) -> tuple[TrainState, dict[str, jax.Array]]:
    """One step of training, for one device."""
    loss, grads = jax.value_and_grad(loss_fn)(state.params, state, batch)
    return state.apply_gradients(grads=grads), {"loss": loss}


def make_batch(config: Config = Config(), seed: int = 0) -> Batch:
    """One batch of digits: `image` float32 [batch, 8, 8, 1], `label` int32 [batch]."""
    return common.digit_batches(common.digits()[0], config.batch, 1, seed)[0]


def example_args(config: Config = Config()) -> tuple[TrainState, Batch]:
    """The shapes and types of `train_step`'s arguments; no memory is taken."""
    state = jax.eval_shape(functools.partial(init_state, config=config), jax.random.key(0))
    image = jax.ShapeDtypeStruct((config.batch, 8, 8, 1), jnp.float32)
    return state, {"image": image, "label": jax.ShapeDtypeStruct((config.batch,), jnp.int32)}


def accuracy(state: TrainState) -> float:
    """The fraction of the held-out digits that is recognised."""
    data = common.digits()[1]
    logits = jax.jit(state.apply_fn)({"params": state.params}, data["image"])
    return float(np.mean(np.argmax(logits, axis=-1) == data["label"]))


def main(
    steps: Annotated[int, typer.Option(help="Training steps.", min=1)] = 100,
    batch: Annotated[int, typer.Option(help="Digits in a batch.", min=1)] = 96,
    hidden: Annotated[int, typer.Option(help="Width of the dense layer.", min=1)] = 128,
    cluster: Annotated[str, typer.Option(help="Where to run; cpu:N makes N virtual devices.")] = "cpu:8",
    mesh: Annotated[str, typer.Option(help="Mesh, as 2x4; left out, the planner chooses.")] = "",
    seed: Annotated[int, typer.Option(help="Seed of the parameters and the batches.")] = 0,
) -> None:
    """Train a CNN on digits, planned and on one device, and compare."""
    common.use_virtual_devices(cluster)
    config = Config(hidden=hidden, batch=batch)
    batches = common.digit_batches(common.digits()[0], batch, steps, seed)
    init, key = functools.partial(init_state, config=config), jax.random.key(seed)

    step = mw.autoparallel(train_step, cluster=mw.Cluster.load(cluster), mesh=mesh or None, donate_argnums=0)
    common.show_plan(step.plan(*example_args(config)))
    planned = common.train(f"{cluster}, planned", step, step.init(init, key), batches, batch, "digits")
    plain = jax.jit(train_step, donate_argnums=0)
    single = common.train("one device, jax.jit", plain, jax.jit(init)(key), batches, batch, "digits")

    final = jax.device_put(planned.state, jax.devices()[0])
    same = common.agree(planned, single, [("held-out accuracy", accuracy(final), accuracy(single.state))])
    raise typer.Exit(0 if same else 1)


if __name__ == "__main__":
    common.run(main)
