"""Resolves a user's pins to layouts of program inputs on one mesh.

A pattern names a pytree path, or is a glob over it; ``*`` also crosses ``/``. It may leave out leading
components: ``params/*/kernel`` matches ``state/params/block_0/mlp/kernel``. A pattern that is a path means
that one alone, and is a glob only where it is none: ``w[0]`` means the path of that name, and without one
``w0``.
"""

from __future__ import annotations

import difflib
import fnmatch
import math
from collections.abc import Callable, Mapping, Sequence

from ...cost_models.mesh import LogicalMesh
from ..errors import IndivisibleError, PinError
from ..ir import Program, Value
from .layout import Layout
from .pin_option import Pin, pinned_dims, spec_of_pin


def resolve_pins(program: Program, mesh: LogicalMesh, pins: Mapping[str, Pin]) -> dict[int, Layout]:
    """Layouts of pinned inputs, by input position.

    Args:
        program: whose inputs are pinned.
        mesh: the mesh with the axes that pins name.
        pins: shardings by path or glob, as `read_pins` gives them. Where several match, the last one
            given wins.

    Raises:
        PinError: where a pattern matches nothing, names an unknown axis, uses one twice, or has more dims
            than the array. All such faults are listed.
        IndivisibleError: where a pinned split does not divide its dim.
    """
    problems: list[str] = []
    resolved: dict[int, Layout] = {}
    for pattern, pin in pins.items():
        matches = matching(program.in_paths, pattern)
        if not matches:
            problems.append(_unmatched(pattern, program.in_paths))
        for i in matches:
            fault = _fault(pattern, pin, program.graph.inputs[i], mesh)
            if fault:
                problems.append(fault)
            else:
                resolved[i] = _layout(pin, program.graph.inputs[i], mesh)
    if problems:
        raise PinError("; ".join(dict.fromkeys(problems)))
    for i, layout in resolved.items():
        _check_divides(program.in_paths[i], program.graph.inputs[i], layout, mesh)
    return resolved


def matching(paths: Sequence[str], pattern: str) -> list[int]:
    """Which paths a pattern means: the one it is, else those it is a tail of, else those its glob matches.

    Tails begin after a ``/``.
    """
    readings: tuple[Callable[[str], bool], ...] = (
        lambda path: path == pattern,
        lambda path: path.endswith(f"/{pattern}"),
        lambda path: fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, f"*/{pattern}"),
    )
    found = ([i for i, path in enumerate(paths) if reads(path)] for reads in readings)
    return next(filter(None, found), [])


def _unmatched(pattern: str, paths: Sequence[str]) -> str:
    near = difflib.get_close_matches(pattern, paths, n=3, cutoff=0.3) or list(paths[:3])
    return f"pin {pattern!r} matches no argument; the nearest paths are {', '.join(map(repr, near))}"


def _fault(pattern: str, pin: Pin, value: Value, mesh: LogicalMesh) -> str | None:
    dims = pinned_dims(pin)
    names = [axis for dim in dims for axis in dim]
    unknown = [axis for axis in names if axis not in mesh.axis_names]
    if unknown:
        known = ", ".join(map(repr, mesh.axis_names))
        return f"pin {pattern!r} names the axis {unknown[0]!r}; the mesh has {known}"
    if len(names) != len(set(names)):
        return f"pin {pattern!r} uses an axis twice: {spec_of_pin(pin)}"
    if len(dims) > value.type.rank:
        return f"pin {pattern!r} has {len(dims)} dims, {value.path!r} only {value.type.rank}"
    return None


def _layout(pin: Pin, value: Value, mesh: LogicalMesh) -> Layout:
    dims = [tuple(mesh.axis_names.index(axis) for axis in dim) for dim in pinned_dims(pin)]
    return Layout((*dims, *[()] * (value.type.rank - len(dims))))


def _check_divides(path: str, value: Value, layout: Layout, mesh: LogicalMesh) -> None:
    for d, (size, axes) in enumerate(zip(value.type.shape, layout.dims, strict=True)):
        parts = math.prod(mesh.shape[a] for a in axes)
        if size % parts:
            raise IndivisibleError(path, d, size, parts, [mesh.axis_names[a] for a in axes])
