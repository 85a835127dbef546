"""Which partitions talk to each other: the ways HLO writes replica groups, as tuples of partition ids.

- listed: `{{0,1},{2,3}}`; `{}` is one group of all partitions.
- iota: `[4,2]<=[2,4]T(1,0)`: number 0..7, shape as [2,4], transpose by (1,0), reshape to 4 groups of 2.
- mesh: `mesh['x'=2,'y'=4] {'x'}`: the groups along axis x of a mesh; `'y':(2)2` is the part of size 2 of
  axis y behind the first 2. A mesh whose devices are not in order has `, device_ids=(0,2,1,3)` before the
  axes, or `, device_ids=([2,4]T(1,0))`: number 0..7, shape as [2,4], transpose by (1,0).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

from ..errors import HloFormatError
from .tokens import group_end

Groups = tuple[tuple[int, ...], ...]

_IOTA = re.compile(r"\[([\d,]+)\]<=(.*)")
_NUMBERED = re.compile(r"\[([\d,]+)\](?:T\(([\d,]+)\))?")
_AXIS_SIZE = re.compile(r"""(['"]?)([^'"=,\[]+)\1=(\d+)""")
_AXIS_USE = re.compile(r"""(['"]?)([^'",:{}]+)\1(?::\((\d+)\)(\d+))?""")


def parse_groups(text: str, num_partitions: int) -> Groups:
    """The groups `text` spells.

    Raises:
        HloFormatError: it is in none of the known forms, or its numbers do not fit together.
    """
    try:
        return _groups(text.strip(), num_partitions)
    except ValueError as error:
        raise HloFormatError(f"replica groups {text[:120]!r}: {error}") from error


def _groups(text: str, num_partitions: int) -> Groups:
    if text.startswith("mesh["):
        return _mesh_groups(text)
    if "<=" in text:
        return _rows(_iota(text))
    if not text.startswith("{"):
        raise ValueError("not understood")
    listed = tuple(_integers(part) for part in re.findall(r"\{([\d, ]+)\}", text))
    return listed or (tuple(range(num_partitions)),)


def parse_pairs(text: str) -> tuple[tuple[int, int], ...]:
    """Source and target of each message of a permute: `{{0,1},{1,0}}`."""
    return tuple((int(source), int(target)) for source, target in re.findall(r"\{(\d+),\s*(\d+)\}", text))


def closed_sets(pairs: Iterable[tuple[int, int]]) -> Groups:
    """The smallest sets of partitions no message leaves, without those that send nothing to others."""
    members: dict[int, set[int]] = {}
    for source, target in pairs:
        joined = members.setdefault(source, {source}) | members.setdefault(target, {target})
        for each in joined:
            members[each] = joined
    distinct = {min(group): tuple(sorted(group)) for group in members.values() if len(group) > 1}
    return tuple(distinct[first] for first in sorted(distinct))


def _iota(text: str) -> np.ndarray:
    match = _IOTA.match(text)
    if match is None:
        raise ValueError("not understood")
    return _numbered(match[2]).reshape(_integers(match[1]))


def _numbered(text: str) -> np.ndarray:
    """`[2,4]T(1,0)`: 0..7 in that shape, transposed."""
    match = _NUMBERED.match(text)
    if match is None:
        raise ValueError("not understood")
    shape = _integers(match[1])
    numbers = np.arange(math.prod(shape)).reshape(shape)
    return numbers.transpose(_integers(match[2])) if match[2] else numbers


def _mesh_groups(text: str) -> Groups:
    end = group_end(text, text.index("["))
    sizes = {name: int(size) for _, name, size in _AXIS_SIZE.findall(text[5 : end - 1])}
    uses = _AXIS_USE.findall(text[text.rindex("{") : text.rindex("}")])
    pieces = {name: _pieces(size, [use for use in uses if use[1] == name]) for name, size in sizes.items()}
    order = [(name, start) for name, starts in pieces.items() for start in starts]
    split = _devices(text[end : text.rindex("{")], sizes).reshape([pieces[n][s] for n, s in order])
    chosen = [order.index((name, int(start or 1))) for _, name, start, _ in uses]
    others = [axis for axis in range(len(order)) if axis not in chosen]
    width = math.prod(split.shape[axis] for axis in chosen)
    return _rows(split.transpose(others + chosen).reshape(-1, width))


def _pieces(size: int, uses: Sequence[tuple[str, ...]]) -> dict[int, int]:
    """An axis cut where its used parts begin and end: start (product of what stands before) to extent."""
    cuts = {1, size}
    for _, _, start, extent in uses:
        if extent:
            cuts |= {int(start), int(start) * int(extent)}
    ordered = sorted(cuts)
    return {begin: end // begin for begin, end in zip(ordered, ordered[1:], strict=False)} or {1: 1}


def _devices(text: str, sizes: dict[str, int]) -> np.ndarray:
    """The mesh's devices in row-major order: all in sequence unless `device_ids=(...)` says otherwise."""
    if "device_ids" not in text:
        return np.arange(math.prod(sizes.values()))
    inside = text[text.index("(") + 1 :].strip().removesuffix(")")
    return _numbered(inside) if inside.startswith("[") else np.array(_integers(inside))


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _rows(array: np.ndarray) -> Groups:
    return tuple(tuple(int(each) for each in row) for row in array)
