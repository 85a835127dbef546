"""Collective matrix products: a gather or scatter that XLA sends in parts, beside the product it belongs to.

For TPUs XLA turns an all-gather before a product, or a reduce-scatter after one, into a loop that sends one
part on while it multiplies another ("windowed einsum"; Wang et al., "Overlap Communication with Dependent
Computation via Decomposition", ASPLOS 2023). What is left in the module are permutes, the last of them beside
the loop. Here they are the collective they stand for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .module import Instruction

if TYPE_CHECKING:
    from .collectives import HloCollective

_BODY = re.compile(r"windowed_dot_general_body_(ag|rs)")
_KINDS = {"ag": "all-gather", "rs": "reduce-scatter"}
_PERMUTE = "collective-permute"


def windowed_kind(instruction: Instruction) -> str | None:
    """The collective that a loop stands for; None for any other loop or instruction."""
    bodies = instruction.calls.get("body", ()) if instruction.opcode == "while" else ()
    found = next(filter(None, map(_BODY.search, bodies)), None)
    return _KINDS[found[1]] if found else None


def join_permutes(kind: str, inside: Iterable[HloCollective]) -> Iterator[HloCollective]:
    """What a windowed loop sends: its permutes as one collective, and what else there is.

    A permute's bytes are those of all members' parts together, which is the whole array: what both kinds of
    collective count.
    """
    sent = list(inside)
    permutes = [each for each in sent if each.kind == _PERMUTE]
    for first in permutes[:1]:
        yield replace(first, kind=kind, parts=first.parts[:1], bytes=first.parts[0], count=1, is_async=True)
    yield from (each for each in sent if each.kind != _PERMUTE)


def without_tails(found: Sequence[HloCollective]) -> Iterator[HloCollective]:
    """The collectives of one computation, without the permutes beside a windowed loop that belong to it."""
    loops = {_key(each) for each in found if each.kind != _PERMUTE and each.pairs}
    for each in found:
        if each.kind != _PERMUTE:
            yield replace(each, pairs=())
        elif _key(each) not in loops:
            yield each


def _key(each: HloCollective) -> tuple[object, ...]:
    return each.op_name, each.source, each.groups, each.parts
