"""Plans beside what the real compilers make of them, for hardware that is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import meshwright as mw
from meshwright.compiler.verify import child
from meshwright.compiler.verify.target import _is_installed

tpu = pytest.mark.skipif(not _is_installed("libtpu"), reason="needs pip install 'meshwright[tpu]'")
gpu = pytest.mark.skipif(
    not _is_installed("jax_plugins.xla_cuda12"), reason="needs pip install 'meshwright[gpu]'"
)
CLUSTERS = [pytest.param("v5e:2x4", marks=tpu), pytest.param("h100:1x8", marks=gpu)]


@pytest.fixture(autouse=True)
def _fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child.platformdirs, "user_cache_path", lambda name: tmp_path)


def step(params: Any, batch: Any) -> Any:
    def loss(params: Any) -> jax.Array:
        x = batch
        for layer in params:
            x = jnp.tanh(x @ layer["up"]) @ layer["down"]
        return jnp.mean(x**2)

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def array(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


PARAMS = [{"up": array(1024, 4096), "down": array(4096, 1024)} for _ in range(2)]


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("rows", [256, 65536])
def test_tensor_and_data_parallel_steps_are_what_was_planned(cluster: str, rows: int) -> None:
    batch = array(rows, 1024)
    plan = mw.plan(step, PARAMS, batch, cluster=cluster, donate_argnums=0)
    report = mw.verify(plan, step, PARAMS, batch)
    assert report.communication
    sent = [c for c in report.communication if max(c.planned_bytes, c.compiled_bytes) > 2**16]
    assert [c for c in sent if abs(c.difference) > 0.05] == []
    assert all(c.planned and c.compiled for c in sent)
    assert all(__file__ in cause.source for c in sent for cause in c.compiled if cause.source)
    assert abs(report.memory.difference) < 0.35, str(report)


@tpu
def test_a_program_that_exceeds_the_memory_is_told() -> None:
    batch = array(2**24, 1024)
    plan = mw.plan(step, PARAMS, batch, cluster="v5e:2x4", donate_argnums=0, budget_bytes="900GiB")
    report = mw.verify(plan, step, PARAMS, batch)
    assert report.does_not_fit
    assert not report.holds
