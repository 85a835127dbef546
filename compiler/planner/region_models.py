"""How operations with regions enter the model.

A loop body's decisions weigh as often as it runs. A carry is one variable for entry, body and exit, so its
layout is the same at all three. A scanned operand and a stacked result are never split along the loop's dim.
What a loop reads without changing is resharded once, before it. Branches of a ``cond`` share the layouts of
their results and weigh as if each were taken equally often. ``remat`` bodies are planned through as if
inlined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..ir import Node, Operand, Value
from .layout import Layout
from .model import Definition, Site

if TYPE_CHECKING:
    from .builder import ModelBuilder

# A while loop's trip count is not in the program; XLA's auto-sharding assumes 100.
_WHILE_TRIPS = 100.0


def _remat(builder: ModelBuilder, node: Node, weight: float) -> None:
    (body,) = node.regions
    _alias_all(builder, body.inputs, node.operands)
    builder.constants(body, weight)
    builder.walk(body, weight)
    _alias_all(builder, node.results, body.outputs)


def _cond(builder: ModelBuilder, node: Node, weight: float) -> None:
    builder.lifetimes.tick(f"cond at {node.source}")
    name = f"cond result at {node.source}"
    results = [
        builder.add_value(name, r, weight, builder.menus.plain(r.type, padded=True)) for r in node.results
    ]
    share = weight / len(node.regions)
    for index, branch in enumerate(node.regions):
        _alias_all(builder, branch.inputs, node.operands[1:])
        builder.constants(branch, share)
        builder.walk(branch, share)
        _leave(builder, node, index, results, branch.outputs, share)
    _hold(builder, node.operands)


def _scan(builder: ModelBuilder, node: Node, weight: float) -> None:
    (body,) = node.regions
    first_carry = node.params["num_consts"]
    first_slice = first_carry + node.params["num_carry"]
    trips = weight * max(node.params["length"], 1)
    builder.lifetimes.tick(f"scan at {node.source}")
    held = _enter_unchanged(builder, node, 0, body.inputs[:first_carry], weight, trips)
    carries = body.inputs[first_carry:first_slice]
    _enter_carries(builder, node, first_carry, carries, weight, trips)
    held += _enter_slices(builder, node, first_slice, body.inputs[first_slice:], weight, trips)
    n_carry = len(carries)
    stacks = [_stack(builder, node, value, trips) for value in node.results[n_carry:]]
    builder.constants(body, trips)
    builder.walk(body, trips)
    _leave(builder, node, 0, _carried(builder, carries), body.outputs[:n_carry], trips)
    _leave(builder, node, 0, stacks, body.outputs[n_carry:], trips, first=n_carry, stacked=True)
    _alias_all(builder, node.results[:n_carry], carries)
    _hold(builder, (*node.operands[:first_carry], *node.operands[first_slice:], *body.inputs), held)


def _while(builder: ModelBuilder, node: Node, weight: float) -> None:
    condition, body = node.regions
    n_condition, n_body = node.params["cond_nconsts"], node.params["body_nconsts"]
    trips = weight * _WHILE_TRIPS
    builder.lifetimes.tick(f"while at {node.source}")
    carries = body.inputs[n_body:]
    unchanged = (*condition.inputs[:n_condition], *body.inputs[:n_body])
    held = _enter_unchanged(builder, node, 0, unchanged, weight, trips)
    _enter_carries(builder, node, len(unchanged), carries, weight, trips)
    _alias_all(builder, condition.inputs[n_condition:], carries)
    for region in (condition, body):
        builder.constants(region, trips)
        builder.walk(region, trips)
    _leave(builder, node, 1, _carried(builder, carries), body.outputs, trips)
    _alias_all(builder, node.results, carries)
    _hold(builder, (*node.operands[: len(unchanged)], *carries), held)


def _enter_unchanged(
    builder: ModelBuilder, node: Node, first: int, values: Sequence[Value], weight: float, trips: float
) -> list[int]:
    """What a loop only reads is the operand itself, or one resharded copy of it for all trips."""
    edges = []
    for position, value in enumerate(values, first):
        menu = builder.menus.plain(value.type, padded=True)
        name = f"{node.op} input at {node.source}"
        inside = builder.add_value(name, value, trips, menu, alive=False)
        edges.append(_read_operand(builder, node, position, inside, inside.layouts, weight))
    return [edge for edge in edges if edge is not None]


def _enter_carries(
    builder: ModelBuilder, node: Node, first: int, values: Sequence[Value], weight: float, trips: float
) -> None:
    for position, value in enumerate(values, first):
        inside = builder.add_value(
            f"{node.op} carry at {node.source}", value, trips, builder.menus.plain(value.type, padded=True)
        )
        _read_operand(builder, node, position, inside, inside.layouts, weight)


def _enter_slices(
    builder: ModelBuilder, node: Node, first: int, values: Sequence[Value], weight: float, trips: float
) -> list[int]:
    """A scanned operand is sliced along its leading dim, which stays whole."""
    edges = []
    for position, value in enumerate(values, first):
        name = f"scan slice at {node.source}"
        inside = builder.add_value(name, value, trips, builder.menus.plain(value.type, padded=True))
        layouts = builder.menus.plain(node.operands[position].type, leading=True, padded=True).results[0]
        edges.append(_read_operand(builder, node, position, inside, layouts, weight))
    return [edge for edge in edges if edge is not None]


def _read_operand(
    builder: ModelBuilder,
    node: Node,
    position: int,
    inside: Definition,
    layouts: tuple[Layout, ...],
    weight: float,
) -> int | None:
    site = Site(node.index, -1, position)
    return builder.read((site,), inside.variable, layouts, node.operands[position], weight, node)


def _stack(builder: ModelBuilder, node: Node, value: Value, trips: float) -> Definition:
    menu = builder.menus.plain(value.type, leading=True, padded=True)
    return builder.add_value(f"scan result at {node.source}", value, trips, menu)


def _carried(builder: ModelBuilder, carries: Sequence[Value]) -> list[Definition]:
    # Every carry has a definition of its own since it entered, literal operands included.
    return [d for d in map(builder.definition, carries) if d is not None]


def _leave(
    builder: ModelBuilder,
    node: Node,
    region: int,
    into: Sequence[Definition],
    outputs: Sequence[Operand],
    weight: float,
    first: int = 0,
    stacked: bool = False,
) -> None:
    """What a region returns is read in the layout of the carry, result or stack it becomes."""
    for position, (target, output) in enumerate(zip(into, outputs, strict=True), first):
        # A slice has the layouts of its stack, in the same order, without the loop's dim.
        layouts = builder.menus.plain(output.type, padded=True).results[0] if stacked else target.layouts
        site = Site(node.index, region, position)
        builder.read((site,), target.variable, layouts, output, weight, node)


def _alias_all(builder: ModelBuilder, values: Sequence[Value], operands: Sequence[Operand]) -> None:
    for value, operand in zip(values, operands, strict=True):
        builder.alias(value, operand)


def _hold(builder: ModelBuilder, operands: Sequence[Operand], copies: Sequence[int] = ()) -> None:
    """What a loop reads, and resharded copies of it, stay alive until its last trip."""
    for operand in operands:
        builder.touch(operand)
    for edge in copies:
        builder.lifetimes.hold_copy(edge)


RegionModel = Callable[["ModelBuilder", Node, float], None]

REGION_MODELS: Mapping[str, RegionModel] = {
    "remat2": _remat,
    "checkpoint": _remat,
    "cond": _cond,
    "scan": _scan,
    "while": _while,
}
