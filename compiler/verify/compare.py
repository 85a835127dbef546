"""Lays a plan beside the program compiled from it."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence

from ...cost_models.cluster import Cluster
from ...cost_models.hlo.collectives import HloCollective, collectives
from ...cost_models.hlo.module import parse_module
from ..lowering import spmd
from ..plan import MeshSpec, Plan
from .compiled import CompiledProgram
from .groups import axes_of_groups, axes_of_pairs
from .report import Cause, Communication, MemoryComparison, VerifyReport
from .timing import compare_time

_Key = tuple[str, tuple[str, ...]]
_UNKNOWN_AXES = ("?",)
_LOWERING = os.path.dirname(spmd.__file__)
# Where the compiler does not say how often a loop runs.
_ONCE = 1


def compare(plan: Plan, cluster: Cluster, made: CompiledProgram) -> VerifyReport:
    """The report on a compiled plan.

    Args:
        plan: the plan.
        cluster: what it is for.
        made: what the compiler made of it.
    """
    module = parse_module(made.hlo) if made.hlo else None
    found = collectives(module) if module is not None else ()
    remarks = []
    if any(c.count is None for c in found):
        remarks.append("a loop's trip count is not known at compile time: its communication counts once")
    if made.does_not_fit:
        remarks.append("a program that does not fit is not compiled: its communication is not known")
    return VerifyReport(
        program=plan.program,
        cluster=plan.cluster,
        compiler=made.compiler,
        communication=_communication(plan, found),
        memory=MemoryComparison(plan.peak_memory_bytes, made.peak_bytes, cluster.memory_bytes),
        timing=compare_time(plan, cluster, made, module),
        full_rematerializations=made.warnings,
        does_not_fit=made.does_not_fit,
        compile_s=made.compile_s,
        remarks=tuple(remarks),
    )


def _communication(plan: Plan, found: Sequence[HloCollective]) -> tuple[Communication, ...]:
    planned: dict[_Key, list[Cause]] = defaultdict(list)
    compiled: dict[_Key, list[Cause]] = defaultdict(list)
    for use in plan.collectives:
        axes = tuple(sorted(use.axes, key=plan.mesh.axis_names.index))
        planned[use.kind, axes].append(Cause(use.source, use.op, use.bytes * use.count, use.count))
    for collective in found:
        times = collective.count if collective.count is not None else _ONCE
        cause = Cause(
            _users_line(collective.source),
            _scope(collective.op_name, plan.program),
            collective.bytes * times,
            len(collective.parts) * times,
        )
        compiled[collective.kind, _axes(collective, plan.mesh)].append(cause)
    both = [_pair(key, planned[key], compiled[key]) for key in {*planned, *compiled}]
    return tuple(sorted(both, key=lambda c: (-max(c.planned_bytes, c.compiled_bytes), c.kind, c.axes)))


def _users_line(source: str) -> str:
    """A line of the program; nothing where the reshard belongs to none, as those of results do not."""
    return "" if source.startswith(_LOWERING) else source


def _scope(op_name: str, program: str) -> str:
    """An operation's path inside the user's function, without the wrappers of the exported program."""
    return op_name.rpartition("call_exported/")[2].removeprefix(f"jit({program})/")


def _axes(collective: HloCollective, mesh: MeshSpec) -> tuple[str, ...]:
    if collective.pairs:
        return axes_of_pairs(collective.pairs, mesh)
    return axes_of_groups(collective.groups, mesh) or _UNKNOWN_AXES


def _pair(key: _Key, planned: Sequence[Cause], compiled: Sequence[Cause]) -> Communication:
    kind, axes = key
    return Communication(
        kind,
        axes,
        sum(c.bytes for c in planned),
        sum(c.bytes for c in compiled),
        sum(c.count for c in planned),
        sum(c.count for c in compiled),
        _joined(planned),
        _joined(compiled),
    )


def _joined(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Causes of one line and operation together, most bytes first."""
    together: dict[tuple[str, str], tuple[int, int]] = {}
    for cause in causes:
        size, count = together.get((cause.source, cause.op), (0, 0))
        together[cause.source, cause.op] = size + cause.bytes, count + cause.count
    found = [Cause(source, op, size, count) for (source, op), (size, count) in together.items()]
    return tuple(sorted(found, key=lambda c: (-c.bytes, c.source, c.op)))
