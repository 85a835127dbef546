"""Reads the pins that a user gives, before any program is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jax.sharding import NamedSharding, PartitionSpec

from ..errors import PinError

Pin = PartitionSpec | NamedSharding
"""A pinned sharding; one that names its mesh also fixes the mesh."""

PinLike = Pin | tuple[str | tuple[str, ...] | None, ...]
"""What may be written for one."""


def read_pins(given: Any) -> dict[str, Pin]:
    """Pins by pattern, checked as far as that needs no program.

    Args:
        given: by pytree path or glob: ``PartitionSpec``s, plain tuples that stand for them
            (``(None, "model")``), or ``NamedSharding``s.

    Raises:
        PinError: where it is no mapping, or a pattern or sharding in it has another type; where a sharding
            leaves a dim open (``P.UNCONSTRAINED``), holds what is no axis name, or is a pending sum; where
            shardings name different meshes. All such faults are listed.
    """
    if not isinstance(given, Mapping):
        raise PinError(
            f"pins={given!r} is no mapping; give shardings by pytree path: "
            'pins={"params/*/kernel": P(None, "model")}'
        )
    pins = {pattern: _plain_spec(spec) for pattern, spec in given.items()}
    problems = [fault for pattern, spec in pins.items() for fault in _faults(pattern, spec)]
    problems = problems or list(_other_meshes(pins))
    if problems:
        raise PinError("; ".join(problems))
    return pins


def spec_of_pin(pin: Pin) -> PartitionSpec:
    """The spec of a pinned sharding, whether or not it names its mesh."""
    return pin.spec if isinstance(pin, NamedSharding) else pin


def pinned_dims(pin: Pin) -> list[tuple[str, ...]]:
    """The mesh axes that split each dim, outermost first; none for a dim that is not split."""
    dims = spec_of_pin(pin)
    return [() if dim is None else (dim,) if isinstance(dim, str) else tuple(dim) for dim in dims]


def pinned_axes(pins: Mapping[str, Pin]) -> frozenset[str]:
    """All mesh axes that pins name."""
    return frozenset(axis for pin in pins.values() for dim in pinned_dims(pin) for axis in dim)


def pinned_mesh(pins: Mapping[str, Pin]) -> dict[str, int] | None:
    """Axis sizes of the mesh that ``NamedSharding``s among the pins are on; None without one."""
    meshes = (dict(pin.mesh.shape) for pin in pins.values() if isinstance(pin, NamedSharding))
    return next(meshes, None)


def check_pinned_mesh(pins: Mapping[str, Pin], axes: Mapping[str, int]) -> None:
    """Compares the mesh that pins are on with the one that was asked for.

    Raises:
        PinError: where they differ.
    """
    pinned = pinned_mesh(pins)
    if pinned is not None and pinned != dict(axes):
        raise PinError(
            f"pins are on a mesh of {pinned}, but mesh= has {dict(axes)}; leave mesh= out, or pin by "
            "PartitionSpec"
        )


def _plain_spec(spec: Any) -> Any:
    try:
        return PartitionSpec(*spec) if type(spec) is tuple else spec
    except TypeError:  # an entry that JAX takes for no dim; the checks name the pin
        return spec


def _faults(pattern: Any, pin: Any) -> Iterator[str]:
    if not isinstance(pattern, str):
        yield f"pin key {pattern!r} is no text; keys are pytree paths such as 'params/w', or globs"
    if isinstance(pin, str):
        yield f"pin {pattern!r} is the text {pin!r}; give a PartitionSpec: P({pin!r})"
    elif pin is None:
        yield f"pin {pattern!r} is None; P() keeps it whole on each device; left out, the planner decides"
    elif not isinstance(pin, Pin):
        yield f"pin {pattern!r} is {pin!r}; give a PartitionSpec such as P(None, 'model')"
    else:
        yield from _spec_faults(pattern, spec_of_pin(pin))


def _spec_faults(pattern: Any, spec: PartitionSpec) -> Iterator[str]:
    if spec.unreduced or spec.reduced:
        yield f"pin {pattern!r} is {spec}: arguments are no pending sums; leave out unreduced= and reduced="
        return
    for number, dim in enumerate(spec):
        axes = dim if isinstance(dim, tuple) else (dim,)
        if dim is PartitionSpec.UNCONSTRAINED:
            yield (
                f"pin {pattern!r} leaves dim {number} open (P.UNCONSTRAINED), but a pin fixes every dim: "
                "write None where it is not split"
            )
        elif dim is not None and not all(isinstance(axis, str) for axis in axes):
            yield f"pin {pattern!r} has {dim!r} for dim {number}; write an axis name, a tuple of them or None"


def _other_meshes(pins: Mapping[str, Pin]) -> Iterator[str]:
    first = pinned_mesh(pins)
    for pattern, pin in pins.items():
        if isinstance(pin, NamedSharding) and dict(pin.mesh.shape) != first:
            yield f"pin {pattern!r} is on a mesh of {dict(pin.mesh.shape)}, others are on one of {first}"
