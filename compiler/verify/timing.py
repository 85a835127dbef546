"""A plan's step time beside the compiler's own estimate."""

from __future__ import annotations

from ...cost_models.cluster import Cluster
from ...cost_models.hlo.estimates import CYCLES_PER_S
from ...cost_models.hlo.module import HloModule
from ...cost_models.hlo.schedule import Timeline, estimated_timeline, read_timeline
from ..plan import Plan
from .compiled import CompiledProgram
from .report import Timing

_FAST = "compiled with little effort: no schedule; ask for timing"
_REMARKS = {
    "tpu": "matrix products credible, elementwise 2-5x pessimistic, ICI without latency",
    "cuda": "an order, no measurement: f32 products and latency between hosts are badly priced",
}


def compare_time(plan: Plan, cluster: Cluster, made: CompiledProgram, module: HloModule | None) -> Timing:
    """A plan's prediction beside the time the compiler's schedule adds up to.

    Args:
        plan: the plan.
        cluster: its cluster.
        made: what the compiler left.
        module: the compiled program, or None where it did not fit.

    Returns:
        Figures, or the reason why there are none; time that some instruction lacks is not made up.
    """
    planned = (plan.step_time_s, plan.costs.communication_s)
    if module is None or not made.timed:
        return Timing(*planned, remark="" if module is None else _FAST)
    timeline = _timeline(module, made, CYCLES_PER_S.get(cluster.hardware.name))
    if timeline.total_s is None:
        missing = ", ".join(timeline.unpriced[:3])
        return Timing(*planned, remark=f"the compiler gives no time for {missing}")
    return Timing(
        *planned,
        timeline.total_s,
        timeline.compute_s,
        timeline.exposed_communication_s,
        _REMARKS[made.platform],
    )


def _timeline(module: HloModule, made: CompiledProgram, cycles_per_s: float | None) -> Timeline:
    if made.schedule:
        return read_timeline(made.schedule, module)
    return estimated_timeline(module, cycles_per_s)
