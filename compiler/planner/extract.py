"""Writes a plan from a solved model: layouts by value, reshards by place, costs and memory by cause."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ... import __version__
from ...cost_models.collectives import collective_time_s
from ...cost_models.mesh import LogicalMesh
from ..ir import Node, Program, TensorType
from ..plan import (
    ArraySpec,
    Certificate,
    CollectiveUse,
    CostTerms,
    LiveTensor,
    MemoryProfile,
    MeshSpec,
    Plan,
    Reshard,
    Stage,
    ValueLayout,
    program_fingerprint,
)
from .layout import Layout, replicated, spec_of
from .model import Model, Read
from .reshard import Step, reshard_steps
from .solver.problem import Problem
from .solver.solve import Solution

_CURVE_POINTS = 256
# More than a plan's text shows, as it joins those of equal layers.
_LARGEST = 64


class _LayoutTable:
    """Distinct layouts of a plan, numbered as they come up."""

    def __init__(self, mesh: LogicalMesh) -> None:
        self._mesh = mesh
        self._index: dict[Layout, int] = {}

    def add(self, layout: Layout) -> int:
        return self._index.setdefault(layout, len(self._index))

    def entries(self) -> tuple[ValueLayout, ...]:
        names = self._mesh.axis_names
        return tuple(ValueLayout(spec_of(x, names), tuple(names[a] for a in x.partial)) for x in self._index)


@dataclass(frozen=True)
class SearchRecord:
    """What a plan records of the search it came from.

    Attributes:
        effort: the search level.
        tried: mesh shapes tried with their objectives.
        is_cut_short: whether the time limit ended the search.
        budget_bytes: memory of one device that had to be kept.
        template: the template that the plan is of, if any.
    """

    effort: int
    tried: tuple[tuple[tuple[int, ...], float | None], ...]
    is_cut_short: bool
    budget_bytes: float
    template: str = ""


def extract_plan(
    program: Program,
    mesh: LogicalMesh,
    model: Model,
    solution: Solution,
    search: SearchRecord,
) -> Plan:
    """The plan of a solved model.

    Args:
        program: the program planned.
        mesh: the chosen mesh.
        model: its model.
        solution: the solver's choice and certificate.
        search: what to record of the search.
    """
    choice = solution.choice
    table = _LayoutTable(mesh)
    values = [-1] * program.num_values
    for value, definition in model.definitions.items():
        values[value.index] = table.add(definition.layouts[choice[definition.variable]])
    reshards = tuple(
        Reshard(*site, table.add(read.targets[choice[read.reader]]))
        for read in model.reads
        if _differs(read, choice)
        for site in read.sites
    )
    collectives = _collectives(model, choice, mesh)
    communication_s = sum(c.seconds for c in collectives)
    return Plan(
        program=program.name,
        fingerprint=program_fingerprint(program),
        cluster=mesh.cluster.name,
        num_devices=mesh.cluster.num_devices,
        hardware_hash=mesh.cluster.hash,
        budget_bytes=int(search.budget_bytes),
        mesh=MeshSpec(mesh.shape, mesh.axis_names),
        arguments=_arguments(program, model, choice, mesh),
        results=_results(program, model, choice, mesh),
        layouts=table.entries(),
        values=tuple(values),
        reshards=reshards,
        collectives=collectives,
        costs=CostTerms(max(solution.objective_s - communication_s, 0.0), communication_s),
        memory=_memory(program, model, choice, mesh),
        stages=(Stage(program.name, program.num_nodes, (0, mesh.cluster.num_devices)),),
        schedule="none",
        certificate=Certificate(
            solution.objective_s,
            solution.bound_s,
            solution.gap,
            search.effort,
            model.problem.num_nodes,
            len(model.problem.edges),
            search.tried,
            search.is_cut_short,
            search.template,
        ),
        meshwright_version=__version__,
    )


def live_tensors(model: Model, choice: np.ndarray, point: int) -> tuple[LiveTensor, ...]:
    """All values alive at a live point, those of equal name and size together; the most bytes first."""
    alive = Counter(item for item in _alive(model.problem, choice, point) if item[1])
    found = [LiveTensor(name, size, count) for (name, size), count in alive.items()]
    return tuple(sorted(found, key=lambda t: (-t.count * t.bytes, t.name, t.bytes)))


def _alive(problem: Problem, choice: np.ndarray, point: int) -> Iterator[tuple[str, int]]:
    """Name and bytes on one device of each value and each resharded copy alive at a live point."""
    for usage in problem.usages:
        if usage.start <= point < usage.end:
            yield problem.names[usage.node], int(usage.bytes[choice[usage.node]])
    for copy in problem.edge_usages:
        if copy.start <= point < copy.end:
            edge = problem.edges[copy.edge]
            yield f"copy of {problem.names[edge.i]}", int(copy.bytes[choice[edge.i], choice[edge.j]])


def _differs(read: Read, choice: np.ndarray) -> bool:
    return read.source.layouts[choice[read.source.variable]] != read.targets[choice[read.reader]]


def _arguments(
    program: Program, model: Model, choice: np.ndarray, mesh: LogicalMesh
) -> tuple[ArraySpec, ...]:
    found = []
    for value, donated in zip(program.graph.inputs, program.donated, strict=True):
        definition = model.definitions[value]
        spec = spec_of(definition.layouts[choice[definition.variable]], mesh.axis_names)
        found.append(ArraySpec(value.path, value.type.shape, value.type.dtype, spec, donated))
    return tuple(found)


def _results(program: Program, model: Model, choice: np.ndarray, mesh: LogicalMesh) -> tuple[ArraySpec, ...]:
    layouts = {
        site.position: read.targets[choice[read.reader]]
        for read in model.reads
        for site in read.sites
        if site.node == -1
    }
    found = []
    for i, (operand, path) in enumerate(zip(program.graph.outputs, program.out_paths, strict=True)):
        layout = layouts.get(i, replicated(operand.type.rank))
        found.append(
            ArraySpec(path, operand.type.shape, operand.type.dtype, spec_of(layout, mesh.axis_names))
        )
    return tuple(found)


_Cause = tuple[Step, str, str, str]


def _communication(model: Model, choice: np.ndarray, mesh: LogicalMesh) -> Iterator[tuple[_Cause, float]]:
    """Every collective of the plan with its cause and how often it runs."""
    for read in model.reads:
        if read.is_served(choice[read.reader]):
            continue
        source = read.source.layouts[choice[read.source.variable]]
        target = read.targets[choice[read.reader]]
        for step in reshard_steps(read.type, source, target, mesh.shape) or ():
            yield (step, _named(read.what, read.type), *_where(read.node)), read.weight
    for variable, k in zip(model.variables, choice, strict=True):
        for step in variable.strategies[k].steps:
            yield (step, variable.name, *_where(variable.node)), variable.weight


def _collectives(model: Model, choice: np.ndarray, mesh: LogicalMesh) -> tuple[CollectiveUse, ...]:
    counts: dict[tuple[Step, str, str], float] = defaultdict(float)
    moved: dict[tuple[Step, str, str], str] = {}
    for (step, value, op, source), weight in _communication(model, choice, mesh):
        counts[step, op, source] += weight
        moved.setdefault((step, op, source), value)
    uses = [
        CollectiveUse(
            kind=str(step.kind.value),
            axes=tuple(mesh.axis_names[a] for a in step.axes),
            bytes=int(step.full_bytes),
            count=round(count),
            seconds=count * collective_time_s(step.kind, step.full_bytes, step.axes, mesh),
            value=moved[step, op, source],
            op=op,
            source=source,
        )
        for (step, op, source), count in counts.items()
    ]
    return tuple(sorted(uses, key=lambda u: (-u.seconds, u.kind, u.op, u.source, u.value)))


def _named(what: str, type_: TensorType) -> str:
    return f"{what}:{type_}"


def _where(node: Node | None) -> tuple[str, str]:
    return ("result", "") if node is None else (node.op, str(node.source or ""))


def _memory(program: Program, model: Model, choice: np.ndarray, mesh: LogicalMesh) -> MemoryProfile:
    curve = model.problem.memory(choice)
    point = int(np.argmax(curve))
    alive = live_tensors(model, choice, point)
    pieces = np.array_split(curve, min(_CURVE_POINTS, len(curve)))
    state = 0.0
    for value in program.graph.inputs:
        definition = model.definitions[value]
        state += definition.layouts[choice[definition.variable]].local_bytes(value.type, mesh.shape)
    return MemoryProfile(
        peak_bytes=int(curve[point]),
        peak_at=model.live_names[point],
        largest=alive[:_LARGEST],
        curve_bytes=tuple(int(piece.max()) for piece in pieces),
        state_bytes=int(state),
        num_live=sum(t.count for t in alive),
    )
