"""Predicted against compiled: ``python -m benchmarks.fidelity``.

Each row plans one training step for one cluster, compiles the plan with XLA's compiler for it (which
``pip install 'meshwright[tpu,gpu]'`` brings), and gives peak memory and bytes sent as planned and compiled.
Targets: memory predicted at most 10 % above the compiler's and 5 % below; bytes sent within 5 % of it and of
the same kinds, for 90 % of rows. A row that misses one says which.

Compiled programs are kept in the user's cache folder, so that a second run measures the prediction alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    # Late otherwise: what is measured imports JAX in a process of its own.
    from meshwright.compiler.plan import Plan
    from meshwright.compiler.verify import VerifyReport

from .measure import in_child, status
from .plan_time import ModelName
from .report import report

CLUSTERS = ("v5e:2x4", "v5p:2x2x2", "h100:1x8", "h100:2x8")
_LAYERS = 2
_NO_TEMPLATE = "-"


@dataclass(frozen=True)
class Row:
    """One plan beside its compiled program.

    Attributes:
        model: name in ``benchmarks.models``.
        cluster: name of the cluster.
        template: the template forced, or ``-`` for the planner's own choice.
        mesh: logical mesh of the plan.
        planned_mib: predicted peak memory of one device.
        compiled_mib: the compiler's; None where the program does not fit.
        memory_off: planned less compiled, as a part of compiled.
        planned_sent_mib: bytes sent, over one group, of all collectives of a step.
        compiled_sent_mib: the same of the compiled program.
        sent_off: bytes planned and compiled of each kind over each set of axes that differ, as a part of all.
        kinds: whether both have the same kinds over the same axes, those of under a thousandth aside.
        full_copies: involuntary full rematerializations.
        misses: which targets are missed; empty where none is.
        compile_s: seconds the compiler took, when it did.
    """

    model: str
    cluster: str
    template: str
    mesh: str
    planned_mib: float
    compiled_mib: float | None
    memory_off: float | None
    planned_sent_mib: float
    compiled_sent_mib: float
    sent_off: float
    kinds: bool
    full_copies: int
    misses: str
    compile_s: float


def measure(model: str, layers: int, cluster: str, template: str, quick: bool) -> Row:
    """Plans and compiles one step in this process.

    Args:
        model: one of ``ModelName``.
        layers: how deep.
        cluster: name of the cluster.
        template: a template's name, or ``-``.
        quick: tiny sizes.
    """
    import meshwright as mw

    from .models import make_workload

    work = make_workload(model, layers, quick)
    options: dict[str, Any] = {} if template == _NO_TEMPLATE else {"template": template}
    plan = mw.plan(work.step, *work.args, cluster=cluster, donate_argnums=0, **options)
    return _row(model, template, plan, mw.verify(plan, work.step, *work.args))


def _row(model: str, template: str, plan: Plan, found: VerifyReport) -> Row:
    planned = sum(c.planned_bytes for c in found.communication)
    compiled = sum(c.compiled_bytes for c in found.communication)
    most = max(planned, compiled, 1)
    differs = sum(abs(c.compiled_bytes - c.planned_bytes) for c in found.communication)
    large = [c for c in found.communication if max(c.planned_bytes, c.compiled_bytes) > 1e-3 * most]
    same = all(c.planned_bytes and c.compiled_bytes for c in large)
    memory = found.memory
    fits = not found.does_not_fit
    return Row(
        model=model,
        cluster=plan.cluster,
        template=template,
        mesh="x".join(map(str, plan.mesh.shape)),
        planned_mib=memory.planned_bytes / 2**20,
        compiled_mib=memory.compiled_bytes / 2**20 if fits else None,
        memory_off=memory.difference if fits else None,
        planned_sent_mib=planned / 2**20,
        compiled_sent_mib=compiled / 2**20,
        sent_off=differs / most,
        kinds=same,
        full_copies=len(found.full_rematerializations),
        misses=_misses(memory.difference if fits else None, differs / most, same),
        compile_s=found.compile_s,
    )


def _misses(memory_off: float | None, sent_off: float, kinds: bool) -> str:
    from meshwright.compiler.verify.report import BYTES_OFF, MEMORY_OVER, MEMORY_UNDER

    missed = []
    if memory_off is None or not -MEMORY_UNDER <= memory_off <= MEMORY_OVER:
        missed.append("memory")
    if sent_off > BYTES_OFF:
        missed.append("bytes")
    if not kinds:
        missed.append("kinds")
    return " ".join(missed)


def main(
    model: Annotated[list[ModelName] | None, typer.Option(help="Only these models.")] = None,
    cluster: Annotated[list[str] | None, typer.Option(help="Only these clusters.")] = None,
    template: Annotated[list[str] | None, typer.Option(help="These templates; - is the free plan.")] = None,
    layers: Annotated[int, typer.Option(help="Depth.", min=1)] = _LAYERS,
    quick: Annotated[bool, typer.Option(help="Tiny sizes, one cluster: shows that it runs.")] = False,
    json: Annotated[bool, typer.Option(help="Print JSON.")] = False,
) -> None:
    """Compare predicted memory and communication with what XLA's compilers make."""
    models = [m.value for m in model or (ModelName.MLP,) if quick or model] or [m.value for m in ModelName]
    rows = []
    for name in models:
        for where in cluster or (CLUSTERS[:1] if quick else CLUSTERS):
            for which in template or (_NO_TEMPLATE,):
                with status(f"{name} on {where}, {which}"):
                    rows.append(in_child(measure, name, layers, where, which, quick))
    report("Predicted against compiled", rows, json)


if __name__ == "__main__":
    typer.run(main)
