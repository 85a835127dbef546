"""Makes a state directly in its sharding, so that it never exists whole on one device."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..compiler.lowering import device_mesh, named_sharding
from ..compiler.plan import ArraySpec, MeshSpec, Plan

_WHOLE = "devices"


def init_state(
    init_fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    plans: Sequence[Plan],
    num_devices: int,
) -> Any:
    """Runs ``init_fn`` with its result sharded.

    Args:
        init_fn: makes the state, as for one device.
        args: its arguments.
        kwargs: its keyword arguments.
        plans: plans made so far, newest last; the first argument of one that looks like the state decides.
        num_devices: devices to spread over where no plan does.
    """
    shapes = jax.eval_shape(init_fn, *args, **kwargs)
    leaves, tree = jax.tree.flatten(shapes)
    shardings = _planned(leaves, plans) or _spread(leaves, num_devices)
    return jax.jit(init_fn, out_shardings=jax.tree.unflatten(tree, shardings))(*args, **kwargs)


def _planned(leaves: Sequence[Any], plans: Sequence[Plan]) -> list[NamedSharding] | None:
    wanted = [(leaf.shape, str(leaf.dtype)) for leaf in leaves]
    for plan in reversed(plans):
        start = _find(wanted, plan.arguments)
        if start is not None:
            mesh = device_mesh(plan.mesh)
            return [named_sharding(mesh, a.spec) for a in plan.arguments[start : start + len(leaves)]]
    return None


def _find(wanted: Sequence[tuple[Any, str]], arguments: Sequence[ArraySpec]) -> int | None:
    """Where the state's leaves stand in a row among the arguments."""
    have = [(a.shape, a.dtype) for a in arguments]
    places = range(len(have) - len(wanted) + 1)
    return next((i for i in places if have[i : i + len(wanted)] == list(wanted)), None)


def _spread(leaves: Sequence[Any], num_devices: int) -> list[NamedSharding]:
    mesh = device_mesh(MeshSpec((num_devices,), (_WHOLE,)))
    return [_widest(leaf.shape, mesh) for leaf in leaves]


def _widest(shape: Sequence[int], mesh: Mesh) -> NamedSharding:
    """Splits the largest dim that divides; nothing where none does."""
    parts = math.prod(mesh.devices.shape)
    fitting = [d for d, size in enumerate(shape) if size and size % parts == 0]
    if not fitting:
        return NamedSharding(mesh, PartitionSpec())
    widest = max(fitting, key=lambda d: shape[d])
    return NamedSharding(mesh, PartitionSpec(*(_WHOLE if d == widest else None for d in range(widest + 1))))
