"""Without annotations the planner finds what experts write by hand.

Each program is planned for eight H100s; the shardings and collectives are compared with golden text. After a
change that is meant to alter plans, look at the difference and run ``UPDATE_GOLDEN=1 pytest
tests/planner/test_rediscovery.py``.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

import meshwright as mw

GOLDEN = Path(__file__).with_name("golden")


def _array(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def _sgd(loss: Callable[..., Any]) -> Callable[..., Any]:
    def step(params: Any, batch: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, batch)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    return step


def _cnn() -> tuple[Any, ...]:
    def loss(params: Any, batch: Any) -> jax.Array:
        x = batch["image"]
        for name in ("conv_0", "conv_1", "conv_2"):
            dims = ("NHWC", "HWIO", "NHWC")
            x = jax.lax.conv_general_dilated(x, params[name], (2, 2), "SAME", dimension_numbers=dims)
            x = jax.nn.relu(x)
        logits = x.mean((1, 2)) @ params["dense"] + params["bias"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()

    params = {
        "conv_0": _array(3, 3, 3, 64),
        "conv_1": _array(3, 3, 64, 128),
        "conv_2": _array(3, 3, 128, 256),
        "dense": _array(256, 1000),
        "bias": _array(1000),
    }
    batch = {"image": _array(256, 64, 64, 3), "label": _array(256, dtype=jnp.int32)}
    return _sgd(loss), params, batch


def _wide_mlp() -> tuple[Any, ...]:
    def loss(params: Any, batch: Any) -> jax.Array:
        hidden = jax.nn.gelu(batch["x"] @ params["up"])
        return jnp.mean((hidden @ params["down"] - batch["y"]) ** 2)

    params = {"up": _array(4096, 16384), "down": _array(16384, 4096)}
    return _sgd(loss), params, {"x": _array(512, 4096), "y": _array(512, 4096)}


def _attention() -> tuple[Any, ...]:
    def loss(params: Any, batch: Any) -> jax.Array:
        x = batch["x"]
        heads = (*x.shape[:2], 16, 256)
        q, k, v = ((x @ params[name]).reshape(heads) for name in ("query", "key", "value"))
        weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k) / 16.0)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape)
        return jnp.mean((mixed @ params["out"] - batch["y"]) ** 2)

    params = {name: _array(4096, 4096) for name in ("query", "key", "value", "out")}
    return _sgd(loss), params, {"x": _array(2, 1024, 4096), "y": _array(2, 1024, 4096)}


def _deep_mlp() -> tuple[Any, ...]:
    optimizer = optax.adam(1e-3)

    def loss(params: Any, batch: Any) -> jax.Array:
        x = batch["x"]
        for layer in range(4):
            x = x + jax.nn.relu(x @ params[f"up_{layer}"]) @ params[f"down_{layer}"]
        return jnp.mean((x - batch["y"]) ** 2)

    def step(state: Any, batch: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(state["params"], batch)
        updates, moments = optimizer.update(grads, state["moments"])
        return {"params": optax.apply_updates(state["params"], updates), "moments": moments}, value

    params = {f"up_{i}": _array(2048, 8192) for i in range(4)}
    params |= {f"down_{i}": _array(8192, 2048) for i in range(4)}
    state = {"params": params, "moments": jax.eval_shape(optimizer.init, params)}
    return step, state, {"x": _array(32768, 2048), "y": _array(32768, 2048)}


def _moe() -> tuple[Any, ...]:
    def loss(params: Any, batch: Any) -> jax.Array:
        x = batch["x"]
        gates, chosen = jax.lax.top_k(jax.nn.softmax(x @ params["router"]), 2)
        weights = jnp.sum(jax.nn.one_hot(chosen, 8) * gates[..., None], 1)
        hidden = jax.nn.gelu(jnp.einsum("td,edf->etf", x, params["up"]))
        mixed = jnp.einsum("etf,efd,te->td", hidden, params["down"], weights)
        return jnp.mean((mixed - batch["y"]) ** 2)

    params = {"router": _array(1024, 8), "up": _array(8, 1024, 4096), "down": _array(8, 4096, 1024)}
    return _sgd(loss), params, {"x": _array(1024, 1024), "y": _array(1024, 1024)}


CASES: dict[str, tuple[Callable[[], tuple[Any, ...]], dict[str, Any]]] = {
    "cnn_data_parallel": (_cnn, {}),
    "wide_mlp_column_row": (_wide_mlp, {}),
    "attention_column_row": (_attention, {"mesh": (8,)}),
    "deep_mlp_fully_sharded": (_deep_mlp, {"budget_bytes": 1.19e9, "mesh": (8,)}),
    "moe_expert_parallel": (_moe, {}),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_expert_plan_is_found(name: str) -> None:
    program, options = CASES[name]
    plan = mw.plan(*program(), cluster="h100:1x8", donate_argnums=0, **options)
    found = _summary(plan)
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(found)
    assert found == golden.read_text()


def test_replica_fits_without_a_budget() -> None:
    """The memory limit alone makes the deep MLP's parameters fully sharded."""
    plan = mw.plan(*_deep_mlp(), cluster="h100:1x8", donate_argnums=0, mesh=(8,))
    kept = [spec for path, spec in plan.shardings.items() if "/params/" in path]
    assert sum(not any(spec) for spec in kept) >= 6


def _summary(plan: mw.Plan) -> str:
    mesh = " ".join(f"{n}={s}" for n, s in zip(plan.mesh.axis_names, plan.mesh.shape, strict=True))
    lines = [f"mesh {mesh}"]
    for path, spec in plan.shardings.items():
        if spec:
            lines.append(f"{path} [{', '.join('*'.join(dim) or '-' for dim in spec)}]")
    uses = sorted(
        (u.kind, "*".join(u.axes), u.bytes, u.op, u.count) for u in plan.collectives if u.bytes > 4096
    )
    lines += [f"{kind} over {axes}: {count} x {size} bytes for {op}" for kind, axes, size, op, count in uses]
    return "\n".join(lines) + "\n"
