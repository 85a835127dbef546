"""A plan file is all another process needs: no search there, the same shardings, the same numbers."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import meshwright as mw


def step(params: Any, batch: Any) -> Any:
    """One step of a two-layer network."""

    def loss(p: Any) -> jax.Array:
        return jnp.mean((jnp.tanh(batch["x"] @ p["up"]) @ p["down"]) ** 2)

    value, grads = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def arguments() -> tuple[Any, Any]:
    """Parameters and a batch, the same everywhere."""
    keys = jax.random.split(jax.random.key(0), 3)
    params = {"up": jax.random.normal(keys[0], (32, 64)), "down": jax.random.normal(keys[1], (64, 16))}
    return params, {"x": jax.random.normal(keys[2], (16, 32))}


_OTHER_PROCESS = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import meshwright as mw
from meshwright.compiler.planner import search
from test_saved_plan import arguments, step

def refuse(*args, **kwargs):
    raise AssertionError("a loaded plan must not be searched for")

search.solve = search.plan_program = refuse
planned = mw.autoparallel(step, plan=mw.Plan.load(sys.argv[2]), donate_argnums=0)
params, loss = planned(*arguments())
np.savez(sys.argv[3], loss=loss, **params)
print(params["up"].sharding.spec)
"""


def test_runs_in_another_process_without_a_search(tmp_path: Path) -> None:
    planned = mw.autoparallel(
        step, cluster="cpu:8", mesh=(2, 4), pins={"params/up": _columns()}, donate_argnums=0
    )
    plan = planned.plan(*arguments())
    plan.save(tmp_path / "plan.json")
    assert mw.Plan.load(tmp_path / "plan.json") == plan
    files = [str(Path(__file__).parent), str(tmp_path / "plan.json"), str(tmp_path / "found.npz")]
    command = [sys.executable, "-c", _OTHER_PROCESS, *files]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(_columns())
    params, loss = step(*arguments())
    found = np.load(tmp_path / "found.npz")
    np.testing.assert_allclose(found["loss"], loss, rtol=1e-5)
    for name, value in params.items():
        np.testing.assert_allclose(found[name], value, atol=1e-5)


def _columns() -> jax.sharding.PartitionSpec:
    return jax.sharding.PartitionSpec(None, "model")
