"""How long planning takes: ``python -m benchmarks.plan_time``.

Each row plans one training step in a process of its own and gives the CPU seconds of each phase, the peak
memory of the process and the solver's certificate. Without options: decoders of 12 and 32 layers on 8 and 64
devices, the search over meshes, the scanned form, and a memory budget below what the cheapest plan takes. The
target is 10 CPU seconds after the trace for 32 layers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

import typer

from .measure import in_child, peak_rss_mib, status
from .report import report

# Shares of the free plan's memory to plan in: the first that something fits.
_BUDGET_SHARES = (0.5, 0.95)
# Where none does: so much more than the least budget that the planner names.
_BUDGET_SLACK = 1.1


class ModelName(StrEnum):
    """Models that can be planned alone: the names in ``benchmarks.models``, which imports JAX."""

    DECODER = "decoder"
    DECODER_SCAN = "decoder-scan"
    DECODER_SHORT = "decoder-short"
    MLP = "mlp"
    WIDE_MLP = "wide_mlp"
    MOE = "moe"
    CNN = "cnn"
    UNET = "unet"
    VIT = "vit"
    DIFFUSION = "diffusion"
    DLRM = "dlrm"
    RNN = "rnn"
    SSM = "ssm"
    ENCODER_DECODER = "encoder_decoder"
    GNN = "gnn"


@dataclass(frozen=True)
class Case:
    """What one row plans.

    Attributes:
        model: name in ``benchmarks.models``.
        layers: its depth.
        cluster: name of the cluster.
        mesh: logical mesh, as ``2x4``; None to search all.
        budget_bytes: memory of one device; None for all it has.
        quick: tiny sizes.
    """

    model: str
    layers: int
    cluster: str
    mesh: str | None
    budget_bytes: int | None = None
    quick: bool = False

    def __str__(self) -> str:
        where = f"{self.cluster} mesh {self.mesh or 'searched'}"
        tight = f" in {self.budget_bytes:,} bytes" if self.budget_bytes else ""
        return f"{self.model}, {self.layers} layers, {where}{tight}"


@dataclass(frozen=True)
class Row:
    """One measured plan; ``_s`` of phases are CPU seconds, ``planned_s`` all of them after the trace."""

    model: str
    layers: int
    cluster: str
    mesh: str
    budget_mib: float | None
    trace_s: float
    rules_s: float
    model_s: float
    solve_s: float
    extract_s: float
    planned_s: float
    peak_rss_mib: float
    objective_ms: float
    bound_ms: float
    gap: float
    num_variables: int
    num_edges: int
    memory_mib: float
    plan_hash: str


def cases(layers: tuple[int, ...], quick: bool) -> list[Case]:
    """The rows of a run without options, the tight budget aside."""
    given = [
        Case("decoder", n, cluster, mesh, quick=quick)
        for n in layers
        for cluster, mesh in (("h100:1x8", "2x4"), ("h100:8x8", "8x8"), ("h100:1x8", None))
    ]
    others = [
        Case(model, n, "h100:1x8", "2x4", quick=quick)
        for model, n in (("decoder-scan", layers[-1]), ("decoder-short", layers[0]))
    ]
    return [*given, *others]


def measure(case: Case) -> Row:
    """Plans one case in this process, which should be a fresh one."""
    import meshwright as mw
    from meshwright.compiler.planner import PlanOptions

    from .models import make_workload
    from .phases import timed_plan

    mesh = tuple(map(int, case.mesh.split("x"))) if case.mesh else None
    options = PlanOptions(mesh=mesh, budget_bytes=case.budget_bytes)
    workload = make_workload(case.model, case.layers, case.quick)
    timed = timed_plan(workload, mw.Cluster.load(case.cluster), options)
    plan = timed.plan
    found = "x".join(map(str, plan.mesh.shape))
    return Row(
        model=case.model,
        layers=case.layers,
        cluster=case.cluster,
        mesh=found if case.mesh else f"{found} (best of {len(plan.certificate.meshes)})",
        budget_mib=case.budget_bytes / 2**20 if case.budget_bytes else None,
        trace_s=timed.trace_s,
        rules_s=timed.rules_s,
        model_s=timed.model_s,
        solve_s=timed.solve_s,
        extract_s=timed.extract_s,
        planned_s=timed.planned_s,
        peak_rss_mib=peak_rss_mib(),
        objective_ms=plan.objective_s * 1e3,
        bound_ms=plan.bound_s * 1e3,
        gap=plan.gap,
        num_variables=plan.certificate.num_variables,
        num_edges=plan.certificate.num_edges,
        memory_mib=plan.peak_memory_bytes / 2**20,
        plan_hash=plan.hash[:12],
    )


def measure_tight(case: Case, free: Row, shares: Sequence[float]) -> Row:
    """The same case in less memory than its free plan takes, so that memory decides.

    Args:
        case: what to plan.
        free: the row of its plan without this budget.
        shares: of that plan's peak, at least one; the first that something fits is taken, or a little over
            the least budget that the planner names.
    """
    least = 0
    for share in shares:
        found = in_child(measure_or_least, replace(case, budget_bytes=int(share * free.memory_mib * 2**20)))
        if isinstance(found, Row):
            return found
        least = found
    return in_child(measure, replace(case, budget_bytes=int(_BUDGET_SLACK * least)))


def measure_or_least(case: Case) -> Row | int:
    """The row of a case, or where nothing fits its budget the least budget in bytes."""
    from meshwright import InfeasibleError

    try:
        return measure(case)
    except InfeasibleError as failure:
        return failure.least_budget_bytes


def run(chosen: Sequence[Case], shares: Sequence[float]) -> list[Row]:
    """Measures all cases, each in a child process.

    Args:
        chosen: the cases.
        shares: see ``measure_tight``, for one more row of the last case; none for no such row.
    """
    rows = []
    for case in chosen:
        with status(str(case)):
            rows.append(in_child(measure, case))
    if shares:
        with status(f"{chosen[-1]} in less memory"):
            rows.append(measure_tight(chosen[-1], rows[-1], shares))
    return rows


def main(
    layers: Annotated[list[int] | None, typer.Option(help="Layers; may be repeated.", min=1)] = None,
    model: Annotated[ModelName | None, typer.Option(help="This model alone.")] = None,
    cluster: Annotated[str, typer.Option(help="Cluster of the one model.")] = "h100:1x8",
    mesh: Annotated[str | None, typer.Option(help="Mesh of the one model, as 2x4; else searched.")] = None,
    share: Annotated[float | None, typer.Option(help="Also plan in this share of the memory.")] = None,
    quick: Annotated[bool, typer.Option(help="Tiny widths: shows that it runs, measures nothing.")] = False,
    json: Annotated[bool, typer.Option(help="Print JSON.")] = False,
) -> None:
    """Measure how long planning takes."""
    if mesh is not None and not re.fullmatch(r"\d+(x\d+)*", mesh):
        raise typer.BadParameter(f"{mesh!r} is no mesh: give sizes, as 8 or 2x4.", param_hint="--mesh")
    depths = tuple(layers or ((2,) if quick else (12, 32)))
    single = model is not None or mesh is not None or cluster != "h100:1x8"
    if single:
        chosen = [Case(model.value if model else "decoder", n, cluster, mesh, quick=quick) for n in depths]
    else:
        chosen = cases(depths, quick)
    default = () if single else _BUDGET_SHARES
    rows = run(chosen, default if share is None else (share,))
    report("Planning: CPU seconds by phase", rows, json)


if __name__ == "__main__":
    typer.run(main)
