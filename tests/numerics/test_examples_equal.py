"""The examples on a mesh equal the examples on one device: 20 steps, every mesh shape, odd device counts."""

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import meshwright as mw

STEPS = 20
LOSS_RTOL = 1e-5
PARAMETER_ATOL = 1e-4
MESHES = ((8,), (2, 4), (4, 2), (2, 2, 2), (3,), (6,), (2, 3))

TINY: dict[str, dict[str, Any]] = {
    "gpt": {"layers": 1, "width": 24, "heads": 6, "length": 16, "batch": 24, "warmup_steps": 5},
    "mlp": {"width": 48, "batch": 48},
    "cnn": {"channels": (12, 24), "hidden": 24, "batch": 48},
    "moe": {"layers": 1, "width": 24, "hidden": 24, "heads": 6, "experts": 24, "length": 16, "batch": 24},
}


class Reference(NamedTuple):
    """One example on one device."""

    step: Callable[..., Any]
    init: Callable[..., Any]
    batches: list[Any]
    losses: list[float]
    parameters: Any


@pytest.fixture(scope="module")
def references(load_example: Callable[[str], ModuleType]) -> Callable[[str], Reference]:
    made: dict[str, Reference] = {}

    def reference(name: str) -> Reference:
        if name not in made:
            made[name] = _reference(load_example(name), TINY[name])
        return made[name]

    return reference


def _reference(module: ModuleType, sizes: dict[str, Any]) -> Reference:
    config = module.Config(**sizes)
    step = module.make_train_step(config) if hasattr(module, "make_train_step") else module.train_step

    def init(key: jax.Array) -> Any:
        return module.init_state(key, config)

    batches = [module.make_batch(config, seed) for seed in range(STEPS)]
    losses, state = _run(jax.jit(step), jax.jit(init)(jax.random.key(0)), batches)
    return Reference(step, init, batches, losses, _parameters(state))


def _run(step: Callable[..., Any], state: Any, batches: list[Any]) -> tuple[list[float], Any]:
    losses = []
    for batch in batches:
        state, metrics = step(state, batch)
        losses.append(float(metrics["loss"]))
    return losses, state


def _parameters(state: Any) -> Any:
    return jax.device_get(state["params"] if isinstance(state, dict) else state.params)


@pytest.mark.parametrize("mesh", MESHES, ids=lambda m: "x".join(map(str, m)))
@pytest.mark.parametrize("name", sorted(TINY))
def test_equals_one_device(
    name: str,
    mesh: tuple[int, ...],
    references: Callable[[str], Reference],
    eager_cluster: Callable[[int], mw.Cluster],
) -> None:
    expected = references(name)
    cluster = eager_cluster(math.prod(mesh))
    step = mw.autoparallel(expected.step, cluster=cluster, mesh=mesh, donate_argnums=0)
    state = step.init(expected.init, jax.random.key(0))
    plan = step.plan(state, expected.batches[0])
    assert sum(c.count for c in plan.collectives) > 0, "a plan that communicates nothing shows nothing"
    losses, state = _run(step, state, expected.batches)
    np.testing.assert_allclose(losses, expected.losses, rtol=LOSS_RTOL)
    for found, wanted in zip(
        jax.tree.leaves(_parameters(state)), jax.tree.leaves(expected.parameters), strict=True
    ):
        np.testing.assert_allclose(found, wanted, atol=PARAMETER_ATOL)
