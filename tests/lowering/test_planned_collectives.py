"""The planned collectives are those that run, also where the partitioner alone would choose others."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import meshwright as mw

MESH = {"d": 2, "m": 4}
# On it, sending is cheap: whatever can be split is.
EAGER = Path(__file__).parent.parent / "numerics" / "eager.toml"
KINDS = "all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute"
BATCH, BOTH, ROWS = P("d"), P("d", "m"), P(("d", "m"))


def _array(*shape: int, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


TABLE, IDS, A = _array(4096, 512), _array(1024, dtype="int32"), _array(1024, 512)


def _table_gradient(table: Any, ids: Any) -> Any:
    return jax.grad(lambda t: jnp.sum(t[ids] ** 2))(table)


def _micro_batches(a: Any, w: Any) -> Any:
    return lax.scan(lambda s, part: (s + jnp.sum(part @ w), None), 0.0, a.reshape(4, 256, 512))[0]


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, P]]] = {
    "rows of a table split by rows": (lambda t, i: t[i], (TABLE, IDS), {"t": P("m"), "i": BATCH}),
    "rows of a table split by columns": (lambda t, i: t[i], (TABLE, IDS), {"t": P(None, "m"), "i": BATCH}),
    "gradient of a table split by rows": (_table_gradient, (TABLE, IDS), {"table": P("m"), "ids": BATCH}),
    "gradient of a table split by columns": (
        _table_gradient,
        (TABLE, IDS),
        {"table": P(None, "m"), "ids": BATCH},
    ),
    "scatter-add": (lambda a, i, u: a.at[i].add(u), (A, IDS, A), {"a": BATCH}),
    "top-k of rows": (lambda a: lax.top_k(a, 4), (A,), {"a": ROWS}),
    "top-k along a split dim": (lambda a: lax.top_k(a, 4), (A,), {"a": BOTH}),
    "sort of rows": (lambda a: jnp.sort(a, axis=1), (A,), {"a": BATCH}),
    "sort along a split dim": (lambda a: jnp.sort(a, axis=1), (A,), {"a": BOTH}),
    "cumsum of rows": (lambda a: jnp.cumsum(a, axis=1), (A,), {"a": BATCH}),
    "cumsum along a split dim": (lambda a: jnp.cumsum(a, axis=1), (A,), {"a": BOTH}),
    "argmax along a split dim": (lambda a: jnp.argmax(a, 1), (A,), {"a": BOTH}),
    "merge of two split dims": (lambda a: jnp.tanh(a.reshape(-1, 8)), (_array(1024, 64, 8),), {"a": BOTH}),
    "split of a split dim": (lambda a: jnp.tanh(a.reshape(64, 64, -1)), (_array(4096, 8),), {"a": BATCH}),
    "heads": (
        lambda a: jnp.tanh(a.reshape(64, 128, 16, 32)),
        (_array(64, 128, 512),),
        {"a": P("d", None, "m")},
    ),
    "roll": (lambda a: jnp.roll(a, 1, 0), (A,), {"a": BATCH}),
    "concatenation along a split dim": (lambda a: jnp.concatenate([a[1:], a[:1]]), (A,), {"a": BATCH}),
    "concatenation along another dim": (lambda a: jnp.concatenate([a, a], 1), (A,), {"a": BATCH}),
    "slice of a split dim": (lambda a: a[:512] * 2, (A,), {"a": BATCH}),
    "pad of a split dim": (lambda a: jnp.pad(a, ((0, 2), (0, 0))), (_array(1022, 512),), {"a": BATCH}),
    "reversal of a split dim": (lambda a: a[::-1], (A,), {"a": BATCH}),
    "update of one row": (
        lambda a, u, i: lax.dynamic_update_slice(a, u, (i, 0)),
        (A, _array(1, 512), _array(dtype="int32")),
        {"a": BATCH},
    ),
    "batch to micro-batches": (_micro_batches, (A, _array(512, 512)), {"a": ROWS}),
}


@pytest.mark.parametrize(
    ("image", "kernel"), [((6, 2, 6, 3), (2, 1, 1, 3)), ((8, 4, 4, 8), (3, 3, 1, 8))], ids=str
)
def test_the_kernel_gradient_of_a_depthwise_convolution(image: Any, kernel: Any) -> None:
    """XLA sums it over devices that hold the same parts, too (jaxlib 0.10.2); windows reach over edges."""

    def gradient(x: Any, weights: Any) -> Any:
        def loss(weights: Any) -> Any:
            options = {"feature_group_count": image[3], "dimension_numbers": ("NHWC", "HWIO", "NHWC")}
            return jnp.mean(jnp.tanh(lax.conv_general_dilated(x, weights, (1, 1), "SAME", **options)))

        return jax.grad(loss)(weights)

    rng = np.random.default_rng(0)
    x, weights = rng.standard_normal(image, np.float32), rng.standard_normal(kernel, np.float32)
    for spec in (P("d"), P(None, "d"), P("m", "d"), P("d", "m")):
        if image[0] % 4 == 0 or "m" not in spec:
            pins = {"x": spec}
            planned = mw.autoparallel(gradient, cluster=str(EAGER), mesh=MESH, pins=pins)
            assert planned.plan(x, weights).collectives
            np.testing.assert_allclose(planned(x, weights), gradient(x, weights), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_planned_is_compiled(name: str) -> None:
    fun, arguments, pins = CASES[name]
    planned = mw.autoparallel(fun, cluster="cpu:8", mesh=MESH, pins=pins)
    # XLA for the CPU has no reduce-scatter: it reduces to all, and each device takes its part.
    kinds = [use.kind.replace("reduce-scatter", "all-reduce") for use in planned.plan(*arguments).collectives]
    text = planned.lower(*arguments).compile().as_text() or ""
    assert set(re.findall(rf"[\])}}] ({KINDS})(?:-start)?\(", text)) == set(kinds)
