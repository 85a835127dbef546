"""A plan as text: the summary, what is split how, what is sent, and what fills the memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from ..plan.plan import ArraySpec, CollectiveUse, Plan
from .arrays import arrays_table
from .axes import axis_lines
from .folding import FoldedNode, Folder
from .memory import memory_section
from .plain import plain_text
from .tables import plain_table
from .units import format_bytes, format_percent, format_seconds, short_path, short_sources

_MOST_ARRAYS, _MOST_COLLECTIVES, _MOST_MESHES = 80, 12, 8


def format_plan(plan: Plan, width: int = 100) -> str:
    """A plan as plain text: no colours, the same on every machine.

    Args:
        plan: the plan.
        width: columns; longer cells are wrapped.
    """
    return plain_text(plan_renderables(plan), width)


def plan_renderables(plan: Plan) -> list[RenderableType]:
    """The parts of a plan's text, in order, for a ``rich`` console."""
    folder = Folder()
    sections: list[list[RenderableType]] = [[_headline(plan), _summary(plan)]]
    for title, arrays in (("argument", plan.arguments), ("result", plan.results)):
        sections.append(list(_arrays(title, arrays, folder.fold(arrays, title), plan)))
    sections += [list(_collectives(plan.collectives)), list(memory_section(plan)), list(_meshes(plan))]
    return [part for section in sections if section for part in (Text(), *section)][1:]


def _headline(plan: Plan) -> Text:
    axes = " ".join(f"{name}={size}" for name, size in _axis_sizes(plan).items())
    devices = f"{plan.num_devices} device{'s' if plan.num_devices != 1 else ''}"
    return Text.assemble((plan.program, "bold"), f" on {plan.cluster} ({devices}), mesh ", (axes, "bold"))


def _summary(plan: Plan) -> RenderableType:
    table = plain_table("", "")
    for name, text in [*_figures(plan), *_pipeline(plan), *axis_lines(plan)]:
        table.add_row(Text(name), Text(text))
    return table


def _figures(plan: Plan) -> Iterator[tuple[str, str]]:
    costs, proof = plan.costs, plan.certificate
    share = format_percent(costs.communication_s / plan.step_time_s if plan.step_time_s else 0.0)
    compute, communication = format_seconds(costs.compute_s), format_seconds(costs.communication_s)
    total = format_seconds(plan.step_time_s)
    yield "step time", f"{total} = {compute} compute + {communication} communication ({share})"
    peak, budget = plan.peak_memory_bytes, plan.budget_bytes
    used = format_percent(peak / budget)
    yield "peak memory", f"{format_bytes(peak)} of {format_bytes(budget)} per device ({used})"
    objective, bound = format_seconds(proof.objective_s), format_seconds(proof.bound_s)
    search = f"effort {proof.effort}, {proof.num_variables} decisions"
    if proof.is_cut_short:
        search += ", ended by the time limit"
    yield "objective", f"{objective}, bound {bound}, gap {format_percent(proof.gap)} ({search})"


def _pipeline(plan: Plan) -> Iterator[tuple[str, str]]:
    if len(plan.stages) > 1:
        yield "schedule", plan.schedule
        for stage in plan.stages:
            first, end = stage.devices
            yield stage.name, f"{stage.num_nodes} operations on devices {first}..{end - 1}"


def _arrays(
    title: str, arrays: Sequence[ArraySpec], nodes: Sequence[FoldedNode], plan: Plan
) -> Iterator[RenderableType]:
    scalars = sum(not array.shape for array in arrays)
    if nodes:
        yield arrays_table(title, nodes, _axis_sizes(plan), _MOST_ARRAYS)
    if scalars:
        yield Text(f"{scalars} scalar {title}{'s' if scalars > 1 else ''}, replicated", style="dim")


def _collectives(uses: Sequence[CollectiveUse]) -> Iterator[RenderableType]:
    if not uses:
        yield Text("no communication")
        return
    table = plain_table("=collective", "=axes", ">count", ">bytes", ">time", "what", "for", "at")
    for use in uses[:_MOST_COLLECTIVES]:
        numbers = (str(use.count), format_bytes(use.bytes), format_seconds(use.seconds))
        cells = (
            use.kind,
            ",".join(use.axes),
            *numbers,
            short_path(use.value),
            use.op,
            short_sources(use.source),
        )
        table.add_row(*map(Text, cells))
    yield table
    rest = uses[_MOST_COLLECTIVES:]
    if rest:
        yield Text(f"... {len(rest)} more, {format_seconds(sum(use.seconds for use in rest))}", style="dim")


def _meshes(plan: Plan) -> Iterator[RenderableType]:
    """Mesh shapes tried, cheapest first, where there was a choice."""
    tried = sorted(plan.certificate.meshes, key=lambda pair: (pair[1] is None, pair[1] or 0.0, pair[0]))
    if len(tried) < 2:
        return
    table = plain_table("mesh tried", ">objective", "")
    for shape, objective_s in tried[:_MOST_MESHES]:
        cost = "does not fit" if objective_s is None else format_seconds(objective_s)
        chosen = "chosen" if shape == plan.mesh.shape else ""
        table.add_row(Text(" x ".join(map(str, shape))), Text(cost), Text(chosen))
    yield table
    if len(tried) > _MOST_MESHES:
        yield Text(f"... {len(tried) - _MOST_MESHES} more meshes tried", style="dim")


def _axis_sizes(plan: Plan) -> dict[str, int]:
    return dict(zip(plan.mesh.axis_names, plan.mesh.shape, strict=True))
