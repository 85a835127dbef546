"""Resolves a user's pins to layouts of program inputs on one mesh.

A pattern names a pytree path, or is a glob over it; ``*`` also crosses ``/``. It may leave out leading
components: ``params/*/kernel`` matches ``state/params/block_0/mlp/kernel``.
"""

from __future__ import annotations

import difflib
import fnmatch
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...cost_models.mesh import LogicalMesh
from ..errors import IndivisibleError, PinError
from ..ir import Program, Value
from .layout import Layout


def pinned_axes(pins: Mapping[str, Any]) -> frozenset[str]:
    """All mesh axes that pins name."""
    specs = [spec for spec in pins.values() if not isinstance(spec, str)]
    return frozenset(axis for spec in specs for dim in _dims(spec) for axis in dim)


def resolve_pins(program: Program, mesh: LogicalMesh, pins: Mapping[str, Any]) -> dict[int, Layout]:
    """Layouts of pinned inputs, by input position.

    Args:
        program: whose inputs are pinned.
        mesh: the mesh with the axes that pins name.
        pins: ``PartitionSpec``s by path or glob. Where several match, the last one given wins.

    Raises:
        PinError: where a pattern matches nothing, names an unknown axis, uses one twice, or has more dims
            than the array. All such faults are listed.
        IndivisibleError: where a pinned split does not divide its dim.
    """
    problems: list[str] = []
    resolved: dict[int, Layout] = {}
    for pattern, spec in pins.items():
        matches = [i for i, path in enumerate(program.in_paths) if path_matches(path, pattern)]
        if not matches:
            problems.append(_unmatched(pattern, program.in_paths))
        for i in matches:
            fault = _fault(pattern, spec, program.graph.inputs[i], mesh)
            if fault:
                problems.append(fault)
            else:
                resolved[i] = _layout(spec, program.graph.inputs[i], mesh)
    if problems:
        raise PinError("; ".join(dict.fromkeys(problems)))
    for i, layout in resolved.items():
        _check_divides(program.in_paths[i], program.graph.inputs[i], layout, mesh)
    return resolved


def path_matches(path: str, pattern: str) -> bool:
    """Whether a pattern names a path or a tail of it that begins at a ``/``."""
    return fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, f"*/{pattern}")


def _dims(spec: Any) -> list[tuple[str, ...]]:
    return [() if dim is None else (dim,) if isinstance(dim, str) else tuple(dim) for dim in spec]


def _unmatched(pattern: str, paths: Sequence[str]) -> str:
    near = difflib.get_close_matches(pattern, paths, n=3, cutoff=0.3) or list(paths[:3])
    return f"pin {pattern!r} matches no argument; the nearest paths are {', '.join(map(repr, near))}"


def _fault(pattern: str, spec: Any, value: Value, mesh: LogicalMesh) -> str | None:
    if isinstance(spec, str):
        return f"pin {pattern!r} is the text {spec!r}; give a PartitionSpec: P({spec!r})"
    names = [axis for dim in _dims(spec) for axis in dim]
    unknown = [axis for axis in names if axis not in mesh.axis_names]
    if unknown:
        known = ", ".join(map(repr, mesh.axis_names))
        return f"pin {pattern!r} names the axis {unknown[0]!r}; the mesh has {known}"
    if len(names) != len(set(names)):
        return f"pin {pattern!r} uses an axis twice: {spec}"
    if len(_dims(spec)) > value.type.rank:
        return f"pin {pattern!r} has {len(_dims(spec))} dims, {value.path!r} only {value.type.rank}"
    return None


def _layout(spec: Any, value: Value, mesh: LogicalMesh) -> Layout:
    dims = [tuple(mesh.axis_names.index(axis) for axis in dim) for dim in _dims(spec)]
    return Layout((*dims, *[()] * (value.type.rank - len(dims))))


def _check_divides(path: str, value: Value, layout: Layout, mesh: LogicalMesh) -> None:
    for d, (size, axes) in enumerate(zip(value.type.shape, layout.dims, strict=True)):
        parts = math.prod(mesh.shape[a] for a in axes)
        if size % parts:
            raise IndivisibleError(path, d, size, parts, [mesh.axis_names[a] for a in axes])
