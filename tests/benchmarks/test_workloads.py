"""Each workload plans, trains on one device in its quick form, and traces in its full one."""

from typing import Any

import jax
import numpy as np
import pytest

import meshwright as mw
from benchmarks.models import MODELS, make_workload
from benchmarks.workloads.layers import causal
from benchmarks.workloads.training import Workload

# The decoder's loss has tests of its own, and examples/gpt.py is planned and trained.
FAMILIES = [name for name in MODELS if not name.startswith("decoder")]
# XLA takes long over these, and the planner over two.
SLOW_RUNS = ("unet", "vit", "diffusion", "dlrm", "ssm", "gnn", "encoder_decoder")
SLOW_PLANS = ("diffusion", "encoder_decoder")


def _marked(slow: tuple[str, ...]) -> list[Any]:
    return [pytest.param(m, marks=pytest.mark.slow) if m in slow else m for m in FAMILIES]


def _shapes(tree: Any) -> Any:
    return jax.tree.map(lambda x: (x.shape, x.dtype), tree)


def _count(tree: Any) -> int:
    return sum(x.size for x in jax.tree.leaves(tree))


def _quick_args(workload: Workload) -> tuple[Any, ...]:
    # These keys compile much faster than the default ones.
    return jax.jit(workload.make_args)(jax.random.key(0, impl="unsafe_rbg"))


@pytest.mark.parametrize("model", _marked(SLOW_RUNS))
def test_five_steps_on_one_batch_lower_the_loss(model: str) -> None:
    workload = make_workload(model, 1, quick=True)
    state, batch = _quick_args(workload)
    assert _shapes((state, batch)) == _shapes(workload.args)
    step, losses = jax.jit(workload.step), []
    for _ in range(5):
        state, loss = step(state, batch)
        losses.append(float(loss))
    assert np.isfinite(losses).all()
    assert (np.diff(losses) < 0).all(), losses


@pytest.mark.parametrize("model", _marked(SLOW_PLANS))
def test_the_quick_step_is_planned(model: str) -> None:
    workload = make_workload(model, 1, quick=True)
    plan = mw.plan(workload.step, *workload.args, cluster=mw.Cluster.load("v5e:2x4"), mesh=(2, 4))
    assert plan.mesh.shape == (2, 4)
    assert plan.objective_s > 0


@pytest.mark.parametrize("model", MODELS)
def test_the_full_step_traces_and_its_matrices_divide(model: str) -> None:
    workload = make_workload(model, 1)
    state, loss = jax.eval_shape(workload.step, *workload.args)
    assert _shapes(state) == _shapes(workload.args[0])
    assert loss.shape == ()
    matrices = [x.shape for x in jax.tree.leaves(state[0]) if len(x.shape) == 2]
    # A click has one score, an LSTM cell four gates.
    assert not [shape for shape in matrices if any(n % 16 and n not in (1, 4) for n in shape)]


@pytest.mark.parametrize("model", MODELS)
def test_a_layer_more_adds_state(model: str) -> None:
    one, two = (make_workload(model, n, quick=True).args[0] for n in (1, 2))
    assert _count(one) < _count(two)


def test_a_causal_mask_hides_the_future() -> None:
    weights = jax.nn.softmax(causal(np.zeros((1, 1, 3, 3), np.float32)))[0, 0]
    np.testing.assert_allclose(weights, [[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]], rtol=1e-6)
