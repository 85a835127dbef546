"""A wide multi-layer perceptron on scanned digits, in plain jax: no library, a dictionary as the state.

`python examples/mlp.py` plans the step for 8 virtual CPU devices, trains, then trains the same on one
device and compares. With wide layers and a small batch the weights weigh more than the activations, so the
planner splits the weights.
"""

import functools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import typer

import meshwright as mw

# So that the file can also be loaded by its path.
sys.path.insert(0, str(Path(__file__).resolve().parent))
import common

Batch = dict[str, Any]
State = dict[str, Any]

LEARNING_RATE = 0.05
MOMENTUM = 0.9
PIXELS = 64
CLASSES = 10


@dataclass(frozen=True)
class Config:
    """Sizes of the model and of one batch."""

    width: int = 768
    hidden_layers: int = 2
    batch: int = 96


def init_state(key: jax.Array, config: Config = Config()) -> State:
    """Makes the parameters, scaled by fan-in, and their momentum."""
    sizes = [PIXELS, *[config.width] * config.hidden_layers, CLASSES]
    keys = jax.random.split(key, len(sizes) - 1)
    params = {
        f"layer_{i}": {"w": jax.random.normal(k, (m, n)) / jnp.sqrt(m), "b": jnp.zeros(n)}
        for i, (k, m, n) in enumerate(zip(keys, sizes[:-1], sizes[1:], strict=True))
    }
    return {"params": params, "momentum": jax.tree.map(jnp.zeros_like, params)}


def predict(params: dict[str, Any], image: jax.Array) -> jax.Array:
    """Maps images [batch, 8, 8, 1] to logits [batch, 10]."""
    x = image.reshape(image.shape[0], PIXELS)
    *hidden, last = (params[f"layer_{i}"] for i in range(len(params)))
    for layer in hidden:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ last["w"] + last["b"]


def loss_fn(params: dict[str, Any], batch: Batch) -> jax.Array:
    """The mean cross-entropy of the label, in nats."""
    logits = jax.nn.log_softmax(predict(params, batch["image"]))
    return -jnp.mean(jnp.sum(logits * jax.nn.one_hot(batch["label"], CLASSES), axis=-1))


def train_step(state: State, batch: Batch) -> tuple[State, dict[str, jax.Array]]:
    """One step of gradient descent with momentum, for one device."""
    loss, grads = jax.value_and_grad(loss_fn)(state["params"], batch)
    momentum = jax.tree.map(lambda m, g: MOMENTUM * m + g, state["momentum"], grads)
    params = jax.tree.map(lambda p, m: p - LEARNING_RATE * m, state["params"], momentum)
    return {"params": params, "momentum": momentum}, {"loss": loss}


def make_batch(config: Config = Config(), seed: int = 0) -> Batch:
    """One batch of digits: `image` float32 [batch, 8, 8, 1], `label` int32 [batch]."""
    return common.digit_batches(common.digits()[0], config.batch, 1, seed)[0]


def example_args(config: Config = Config()) -> tuple[State, Batch]:
    """The shapes and types of `train_step`'s arguments; no memory is taken."""
    state = jax.eval_shape(functools.partial(init_state, config=config), jax.random.key(0))
    image = jax.ShapeDtypeStruct((config.batch, 8, 8, 1), jnp.float32)
    return state, {"image": image, "label": jax.ShapeDtypeStruct((config.batch,), jnp.int32)}


def accuracy(state: State) -> float:
    """The fraction of the held-out digits that is recognised."""
    data = common.digits()[1]
    return float(
        np.mean(jnp.argmax(predict(state["params"], jnp.asarray(data["image"])), axis=-1) == data["label"])
    )


def main(
    steps: Annotated[int, typer.Option(help="Training steps.", min=1)] = 100,
    width: Annotated[int, typer.Option(help="Width of the hidden layers.", min=1)] = 768,
    hidden_layers: Annotated[int, typer.Option(help="Hidden layers.", min=1)] = 2,
    batch: Annotated[int, typer.Option(help="Digits in a batch.", min=1)] = 96,
    cluster: Annotated[str, typer.Option(help="Where to run; cpu:N makes N virtual devices.")] = "cpu:8",
    mesh: Annotated[str, typer.Option(help="Mesh, as 2x4; left out, the planner chooses.")] = "",
    seed: Annotated[int, typer.Option(help="Seed of the parameters and the batches.")] = 0,
) -> None:
    """Train a wide MLP on digits, planned and on one device, and compare."""
    common.use_virtual_devices(cluster)
    config = Config(width, hidden_layers, batch)
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
