"""Tables of arguments and results: one line for each folded array or group, with bytes on one device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from ..plan.plan import ArraySpec
from .folding import FoldedNode
from .tables import plain_table
from .units import device_bytes, format_bytes, format_spec, format_type, short_dtype

_INDENT = "  "
# Characters of a path that is joined on one line; a longer one goes on below, so that no name is cut.
_MOST_JOINED = 28


@dataclass(frozen=True)
class _Row:
    """One line: what it is, and bytes on one device of one array and of all it stands for."""

    label: str
    depth: int
    what: str
    sharding: str
    each_bytes: int | None
    all_bytes: int


def arrays_table(title: str, nodes: Sequence[FoldedNode], axis_sizes: Mapping[str, int], most: int) -> Table:
    """A table of folded arrays.

    Args:
        title: header of the first column.
        nodes: folded trees.
        axis_sizes: devices along each mesh axis.
        most: rows at most; a last row counts what is left out.
    """
    table = plain_table(title, "array", "sharding", ">per device", ">sum")
    rows = [row for node in nodes for row in _rows(node, axis_sizes, 0, 1)]
    for row in rows[:most]:
        table.add_row(*_cells(row))
    if len(rows) > most:
        table.add_row(Text(f"... {len(rows) - most} more rows"))
    return table


def _cells(row: _Row) -> tuple[Text, ...]:
    label = Text(_INDENT * row.depth + row.label, style="" if row.what else "bold")
    sharding = Text(row.sharding, style="dim" if row.sharding == "replicated" else "cyan")
    each = "" if row.each_bytes is None else format_bytes(row.each_bytes)
    return label, Text(row.what), sharding, Text(each), Text(format_bytes(row.all_bytes))


def _rows(node: FoldedNode, sizes: Mapping[str, int], depth: int, copies: int) -> Iterator[_Row]:
    node, label, joined = _through_single_children(node, _MOST_JOINED - len(_INDENT) * depth)
    copies *= joined
    total = copies * sum(count * _bytes(array, sizes) for array, count in node.leaves())
    if node.array is not None:
        what = format_type(node.array.dtype, node.array.shape)
        yield _Row(label, depth, what, format_spec(node.array.spec), _bytes(node.array, sizes), total)
    elif node.mirror_of:
        yield _Row(label, depth, _summary(node, copies), f"as {node.mirror_of}", None, total)
    else:
        yield _Row(label + _donation(node, depth), depth, "", "", None, total)
        for child in node.children:
            yield from _rows(child, sizes, depth + 1, copies)


def _through_single_children(node: FoldedNode, most: int) -> tuple[FoldedNode, str, int]:
    """The first node below with a choice, the path to it (``attention/query/kernel``) and its copies."""
    label, copies = node.name or "(result)", node.copies
    while len(node.children) == 1 and not node.mirror_of:
        if len(label) + len(node.children[0].name) >= most:
            break
        node = node.children[0]
        label, copies = f"{label}/{node.name}", copies * node.copies
    return node, label, copies


def _bytes(array: ArraySpec, sizes: Mapping[str, int]) -> int:
    return device_bytes(array.shape, array.dtype, array.spec, sizes)


def _summary(node: FoldedNode, copies: int) -> str:
    """Count and element types of a subtree: ``62 arrays, f32``."""
    dtypes = sorted({short_dtype(array.dtype) for array, _ in node.leaves()})
    return f"{node.num_arrays * copies} arrays, {' '.join(dtypes)}"


def _donation(node: FoldedNode, depth: int) -> str:
    donated = depth == 0 and all(array.donated for array, _ in node.leaves())
    return " (donated)" if donated else ""
