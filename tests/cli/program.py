"""A program for the command line's tests, and what is wrong with others."""

import jax
import jax.numpy as jnp

import meshwright as mw

LEARNING_RATE = 0.1


def train_step(params, batch):
    """One step of gradient descent of a two-layer net."""

    def loss(p):
        return jnp.mean((jnp.tanh(batch @ p["up"]) @ p["down"]) ** 2)

    return jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, jax.grad(loss)(params))


def example_args():
    """Shapes are enough."""
    params = {"up": spec(64, 256), "down": spec(256, 64)}
    return params, spec(128, 64)


def spec(*shape):
    """A float32 array's shape."""
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def total(x):
    """A function of one argument."""
    return x.sum()


def one_array():
    """One argument that is no tuple."""
    return spec(64, 64)


planned_step = mw.autoparallel(train_step, donate_argnums=0, effort=1)


class Holder:
    """Functions may stand in classes."""

    step = staticmethod(train_step)


def untraceable(x):
    """What JAX cannot trace."""
    return x if x.sum() > 0 else -x


def failing_args():
    """Arguments that cannot be made."""
    raise FileNotFoundError("no data")


def talkative_args():
    """Arguments of a module that prints what it does."""
    print("a user's own output")
    return example_args()
