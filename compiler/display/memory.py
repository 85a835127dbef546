"""What fills the memory: the peak, the curve over the step, and the values alive at the peak."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..plan.plan import LiveTensor, MemoryProfile, Plan
from .folding import FoldedNode, join_layers
from .tables import plain_table
from .units import format_bytes, short_sources, sparkline

_MOST_LIVE = 8
_CURVE_WIDTH = 64


def memory_section(plan: Plan) -> Iterator[RenderableType]:
    """The lines and the table of a plan's memory."""
    memory = plan.memory
    yield Text.assemble(
        ("memory", "bold"),
        f" peak {format_bytes(memory.peak_bytes)}, in {short_sources(memory.peak_at)}; "
        f"arguments between steps {format_bytes(memory.state_bytes)}",
    )
    yield Text(f"over the step {sparkline(memory.curve_bytes, _CURVE_WIDTH)}")
    if memory.largest:
        yield Text()
        yield _largest(memory, {argument.path for argument in plan.arguments})


def _largest(memory: MemoryProfile, arguments: Collection[str]) -> Table:
    """The largest lines, and all others as one, so that the last column adds up to the peak."""
    table = plain_table("largest at the peak", ">count", ">per device", ">sum")
    shown = _layers_joined(memory.largest, arguments)[:_MOST_LIVE]
    for live in shown:
        numbers = (str(live.count), format_bytes(live.bytes), format_bytes(live.count * live.bytes))
        table.add_row(*map(Text, (short_sources(live.name), *numbers)))
    rest_bytes = memory.peak_bytes - sum(live.count * live.bytes for live in shown)
    if rest_bytes > 0:
        # A plan of version 1 does not say how many values there are.
        count = str(memory.num_live - sum(live.count for live in shown)) if memory.num_live else ""
        table.add_row(*map(Text, ("... more", count, "", format_bytes(rest_bytes))))
    return table


def _layers_joined(largest: Sequence[LiveTensor], arguments: Collection[str]) -> list[LiveTensor]:
    """Arguments of equal size whose paths differ in one number (a layer's) as one line; most bytes first."""
    nodes = [
        FoldedNode(live.name, live.name, live.count, None, (), live.bytes, live.bytes, 1)
        for live in largest
        if live.name in arguments
    ]
    joined = [LiveTensor(node.name, node.signature, node.copies) for node in join_layers(nodes)]
    joined += [live for live in largest if live.name not in arguments]
    return sorted(joined, key=lambda live: (-live.count * live.bytes, live.name))
