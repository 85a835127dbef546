"""One entry of the zoo: another project's model, trained planned on 8 devices and as it is on one.

An entry is a test that makes a ``Training``; ``model`` turns it into the comparison and notes a row for
``docs/zoo.md`` (``report`` renders the rows), whatever comes of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshwright as mw
from meshwright.compiler.plan.plan import ArraySpec
from tests.zoo.rows import KINDS, Row, save_row

STEPS = 3
MESH = (2, 4)
LOSS_RTOL = 1e-5
STATE_ATOL = 1e-4


class Training(NamedTuple):
    """A model in training.

    Attributes:
        step: ``(state, *batch) -> (state, loss)``.
        state: everything that a step renews: parameters, optimizer state, statistics, random keys.
        batch: the other arguments, the same at each step.
    """

    step: Callable[..., tuple[Any, Any]]
    state: Any
    batch: tuple[Any, ...]


ClusterMaker = Callable[[int], mw.Cluster]


def model(
    package: str, name: str, *, own: bool = False, kind: str = "", fails: str | None = None
) -> Callable[[Callable[[], Training]], Callable[[ClusterMaker], None]]:
    """Makes a test of a function that makes a ``Training``.

    Args:
        package: what the model is from.
        name: the architecture.
        own: whether the architecture is the package's own code, unmodified.
        kind: the one of ``KINDS`` that it stands for; empty where it stands for none.
        fails: why it is known not to work; the test is then expected to fail, and the row has the reason.
    """
    assert not kind or kind in KINDS, f"{name}: no kind {kind!r}, there are {KINDS}"

    def decorate(make: Callable[[], Training]) -> Callable[[ClusterMaker], None]:
        def test(eager_cluster: ClusterMaker) -> None:
            row = Row(package, name, own, kind, reason=fails or "")
            try:
                _compare(make(), eager_cluster(math.prod(MESH)), row)
            except Exception as error:
                row.reason = fails or f"{type(error).__name__}: {error}".splitlines()[0]
                raise
            finally:
                save_row(row)

        test.__name__, test.__doc__ = make.__name__, make.__doc__
        return pytest.mark.xfail(reason=fails, strict=True)(test) if fails else test

    return decorate


def _compare(training: Training, cluster: mw.Cluster, row: Row) -> None:
    planned = mw.autoparallel(training.step, cluster=cluster, mesh=MESH)
    start = time.perf_counter()
    plan = planned.plan(training.state, *training.batch)
    row.plan_s = time.perf_counter() - start
    _describe(plan, len(jax.tree.leaves(training.state)), row)
    assert plan.collectives, "a plan that communicates nothing shows nothing"
    losses, state = _run(planned, training)
    wanted_losses, wanted = _run(jax.jit(training.step), training)
    assert np.all(np.isfinite(wanted_losses)), "the reference diverges"
    np.testing.assert_allclose(losses, wanted_losses, rtol=LOSS_RTOL)
    _assert_close(state, wanted)
    row.equal = True


def _run(step: Callable[..., Any], training: Training) -> tuple[list[float], Any]:
    state, losses = training.state, []
    for _ in range(STEPS):
        state, loss = step(state, *training.batch)
        losses.append(np.asarray(loss))
    return losses, state


def _assert_close(found: Any, wanted: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    wanted_leaves = jax.tree.leaves_with_path(wanted)
    for leaf, (path, expected) in zip(jax.tree.leaves(found), wanted_leaves, strict=True):
        np.testing.assert_allclose(
            _numbers(leaf), _numbers(expected), atol=STATE_ATOL, err_msg=jax.tree_util.keystr(path)
        )


def _numbers(leaf: Any) -> np.ndarray:
    is_key = jnp.issubdtype(jnp.asarray(leaf).dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def _describe(plan: mw.Plan, num_state: int, row: Row) -> None:
    sizes = dict(zip(plan.mesh.axis_names, plan.mesh.shape, strict=True))
    state, batch = plan.arguments[:num_state], plan.arguments[num_state:]
    row.mesh = "x".join(str(n) for n in plan.mesh.shape)
    row.state = f"{sum(_is_split(a) for a in state)}/{len(state)} split, {_share(state, sizes):.0%} held"
    row.batch = "; ".join(dict.fromkeys(_spec(a) for a in batch if math.prod(a.shape) > 1)) or "-"
    counts: dict[str, int] = {}
    for use in plan.collectives:
        counts[use.kind] = counts.get(use.kind, 0) + use.count
    row.collectives = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


def _is_split(argument: ArraySpec) -> bool:
    return any(argument.spec)


def _share(arguments: tuple[ArraySpec, ...], sizes: dict[str, int]) -> float:
    """The part of all elements that one device holds."""
    held = total = 0.0
    for argument in arguments:
        elements = math.prod(argument.shape)
        total += elements
        held += elements / math.prod(sizes[axis] for axes in argument.spec for axis in axes)
    return held / max(total, 1.0)


def _spec(argument: ArraySpec) -> str:
    return "[" + ", ".join("+".join(axes) or "-" for axes in argument.spec) + "]"
