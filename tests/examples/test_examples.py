"""The example programs on one device, at tiny sizes: they learn, and their specs describe them."""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

Load = Callable[[str], ModuleType]

# name -> (tiny sizes, first loss less last loss after 20 steps that shows learning)
TINY: dict[str, tuple[dict[str, Any], float]] = {
    "gpt": ({"layers": 1, "width": 32, "heads": 2, "length": 16, "batch": 12, "warmup_steps": 2}, 1.0),
    "mlp": ({"width": 48, "batch": 48}, 1.0),
    "cnn": ({"channels": (8, 16), "hidden": 24, "batch": 48, "learning_rate": 5e-3}, 0.3),
    "moe": ({"layers": 1, "width": 24, "hidden": 24, "heads": 2, "length": 16, "batch": 12}, 0.5),
}


def _step(module: ModuleType, config: Any) -> Callable[..., Any]:
    return module.make_train_step(config) if hasattr(module, "make_train_step") else module.train_step


class Trained(NamedTuple):
    """Twenty steps of one example."""

    losses: list[float]
    before: Any
    after: Any


@pytest.fixture(scope="module", params=sorted(TINY))
def example(request: pytest.FixtureRequest, load_example: Load) -> tuple[ModuleType, Any, float]:
    """A module, its tiny configuration and the fall of the loss that shows learning."""
    module, (sizes, fall) = load_example(request.param), TINY[request.param]
    return module, module.Config(**sizes), fall


@pytest.fixture(scope="module")
def trained(example: tuple[ModuleType, Any, float]) -> Trained:
    module, config, _ = example
    step = jax.jit(_step(module, config))
    before = state = _init(module, config)
    losses = []
    for seed in range(20):
        state, metrics = step(state, module.make_batch(config, seed))
        losses.append(float(metrics["loss"]))
    return Trained(losses, before, state)


def _init(module: ModuleType, config: Any) -> Any:
    return jax.jit(lambda key: module.init_state(key, config))(jax.random.key(0))


def _params(state: Any) -> Any:
    return state["params"] if isinstance(state, dict) else state.params


def test_loss_falls(example: tuple[ModuleType, Any, float], trained: Trained) -> None:
    assert trained.losses[0] - trained.losses[-1] > example[2], trained.losses


def test_specs_describe_the_arguments(example: tuple[ModuleType, Any, float], trained: Trained) -> None:
    module, config, _ = example
    specs = module.example_args(config)
    made = (trained.before, module.make_batch(config))
    assert jax.tree.structure(specs) == jax.tree.structure(made)
    for spec, value in zip(jax.tree.leaves(specs), jax.tree.leaves(made), strict=True):
        assert (spec.shape, spec.dtype) == (value.shape, value.dtype)


def test_step_keeps_the_state(example: tuple[ModuleType, Any, float]) -> None:
    module, config, _ = example
    state, batch = module.example_args(config)
    new_state, metrics = jax.eval_shape(_step(module, config), state, batch)
    assert new_state == state
    assert metrics["loss"].shape == ()


def test_every_parameter_is_trained(trained: Trained) -> None:
    """A gradient that is nothing but rounding would be blown up by Adam and make two equal runs differ."""
    old, new = _params(trained.before), _params(trained.after)
    for (path, before), after in zip(jax.tree.leaves_with_path(old), jax.tree.leaves(new), strict=True):
        assert np.max(np.abs(after - before)) > 1e-4, jax.tree_util.keystr(path)


def test_gpt_generates_its_length(load_example: Load) -> None:
    gpt = load_example("gpt")
    config = gpt.Config(**TINY["gpt"][0])
    state = _init(gpt, config)
    text = gpt.generate(state, config, prompt="def ")
    assert text.startswith("def ")
    assert gpt.generate(state, config, prompt="def ") == text


def test_gpt_is_causal(load_example: Load) -> None:
    gpt = load_example("gpt")
    config = gpt.Config(**TINY["gpt"][0])
    state = _init(gpt, config)
    tokens = np.asarray(gpt.make_batch(config)["inputs"])
    changed = tokens.copy()
    changed[:, 8:] = 0
    apply = jax.jit(state.apply_fn)
    logits = [apply({"params": state.params}, t) for t in (tokens, changed)]
    np.testing.assert_allclose(logits[0][:, :8], logits[1][:, :8], rtol=1e-5, atol=1e-6)
    assert np.max(np.abs(logits[0][:, 8:] - logits[1][:, 8:])) > 1e-3


def test_moe_uses_two_experts_per_token(load_example: Load) -> None:
    """Zeroing one expert changes some tokens' output and not others': each is used, none by all."""
    moe = load_example("moe")
    config = moe.Config(**TINY["moe"][0])
    state, batch = _init(moe, config), moe.make_batch(config)
    model = moe.build(config)[0]
    logits = jax.jit(lambda params: moe.forward(model, params, batch["inputs"])[0])
    full = logits(state.params)
    for expert in range(config.experts):
        params = jax.tree.map(lambda x: x, state.params)
        params["experts_0"]["down"] = params["experts_0"]["down"].at[expert].set(0)
        without = logits(params)
        touched = np.mean(np.max(np.abs(full - without), axis=-1) > 1e-7)
        assert 0 < touched < 1
