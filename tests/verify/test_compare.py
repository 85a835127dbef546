"""A plan beside a compiled program: rows, tolerances, verdict and text."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import meshwright as mw
from meshwright.compiler.plan import CollectiveUse, Plan
from meshwright.compiler.verify.compare import compare
from meshwright.compiler.verify.compiled import CompiledProgram
from meshwright.compiler.verify.report import VerifyReport
from tests.plan.plans import small_plan

SUM = (
    "%sum = f32[16,4] all-reduce(%x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, "
    'to_apply=%add, metadata={op_name="jit(call)/call_exported/jit(step)/jvp()/dot_general" '
    'source_file="m.py" source_line=3}'
)
HLO = f"""HloModule jit_step, num_partitions=2

%add (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(%a, %b)
}}

ENTRY %main (x: f32[16,4]) -> f32[16,4] {{
  %x = f32[16,4] parameter(0)
  ROOT {SUM}
}}
"""
GATHER = "%g = f32[32,4] all-gather(%sum), channel_id=2, replica_groups={{0,1}}, dimensions={0}"
BIG = 2**32


def plan_of(*uses: tuple[str, int], peak_bytes: int = BIG) -> Plan:
    made = small_plan()
    collectives = tuple(
        CollectiveUse(k, ("data",), b, 1, 1e-6, "%1", "dot_general", "m.py:3") for k, b in uses
    )
    memory = msgspec.structs.replace(made.memory, peak_bytes=peak_bytes)
    return msgspec.structs.replace(made, collectives=collectives, memory=memory)


def report(plan: Plan, hlo: str = HLO, **made: Any) -> VerifyReport:
    facts = {"peak_bytes": BIG, **made}
    return compare(plan, mw.Cluster.load("h100:1x2"), CompiledProgram("cuda", "x 1", hlo=hlo, **facts))


def test_what_was_planned_holds() -> None:
    made = report(plan_of(("all-reduce", 256)))
    (row,) = made.communication
    assert (row.kind, row.axes, row.planned_bytes, row.compiled_bytes) == ("all-reduce", ("data",), 256, 256)
    assert [(c.source, c.op, c.bytes) for c in row.compiled] == [("m.py:3", "jvp()/dot_general", 256)]
    assert made.holds
    assert "is what was planned" in str(made)


@pytest.mark.parametrize(("planned", "holds"), [(256, True), (245, True), (240, False), (300, False)])
def test_bytes_within_five_percent(planned: int, holds: bool) -> None:
    assert report(plan_of(("all-reduce", planned))).holds is holds


@pytest.mark.parametrize(
    ("planned", "holds"), [(1.0, True), (1.09, True), (1.11, False), (0.96, True), (0.94, False)]
)
def test_memory_may_be_ten_percent_over_and_five_under(planned: float, holds: bool) -> None:
    made = report(plan_of(("all-reduce", 256), peak_bytes=int(planned * BIG)))
    assert made.holds is holds
    assert ("peak memory" in "".join(made.problems)) is not holds


def test_the_padding_of_a_small_program_is_no_difference() -> None:
    assert report(plan_of(("all-reduce", 256), peak_bytes=2**20), peak_bytes=2**21).holds


def test_communication_that_nobody_planned_names_its_line() -> None:
    hlo = HLO.replace("ROOT %sum", "%sum").replace("line=3}", f"line=3}}\n  ROOT {GATHER}")
    made = report(
        plan_of(("all-reduce", 256)),
        hlo.replace("dimensions={0}", 'dimensions={0}, metadata={op_name="f/add"}'),
    )
    (extra,) = made.unplanned
    assert (extra.kind, extra.compiled_bytes) == ("all-gather", 512)
    assert "all-gather over data: 512 bytes that nobody planned (at f/add)" in made.problems


def test_planned_communication_that_is_not_there() -> None:
    made = report(plan_of(("all-reduce", 256), ("all-to-all", 64)))
    assert made.problems == ("all-to-all over data: 64 bytes planned, none compiled",)


def test_groups_that_cut_an_axis() -> None:
    plan = plan_of(("all-reduce", 256))
    hlo = HLO.replace("num_partitions=2", "num_partitions=4").replace("{{0,1}}", "{{0,1},{2,3}}")
    wider = msgspec.structs.replace(plan, mesh=msgspec.structs.replace(plan.mesh, shape=(4,)))
    assert report(wider, hlo).unplanned[0].axes == ("?",)


def test_what_does_not_fit_says_so() -> None:
    made = report(plan_of(("all-reduce", 256)), "", peak_bytes=0, does_not_fit="Used 20G of 15G hbm.\nmore")
    assert made.problems[0] == "does not fit: Used 20G of 15G hbm."
    assert made.timing.compiled_s is None
    assert "communication is not known" in str(made)
    (line,) = [line for line in str(made).splitlines() if line.startswith("peak memory")]
    assert "%" not in line


def test_full_copies_fail_the_plan() -> None:
    assert not report(plan_of(("all-reduce", 256)), warnings=("Involuntary full rematerialization",)).holds


def test_an_unknown_trip_count_is_told() -> None:
    loop = (
        HLO.replace("ENTRY %main", "%body")
        .replace("ROOT %sum", "%sum")
        .replace("line=3}", "line=3}\n  ROOT %y = f32[16,4] copy(%sum)")
    )
    text = loop + (
        "\n%cond (p: f32[16,4]) -> pred[] {\n  %p = f32[16,4] parameter(0)\n"
        "  ROOT %r = pred[] custom-call(%p), custom_call_target=\"more\"\n}\n\n"
        "ENTRY %main (z: f32[16,4]) -> f32[16,4] {\n  %z = f32[16,4] parameter(0)\n"
        "  ROOT %w = f32[16,4] while(%z), condition=%cond, body=%body\n}\n"
    )  # fmt: skip
    made = report(plan_of(("all-reduce", 256)), text)
    assert made.communication[0].compiled_bytes == 256
    assert any("trip count" in remark for remark in made.remarks)


def test_fast_compiles_give_no_time() -> None:
    made = report(plan_of(("all-reduce", 256)))
    assert made.timing.compiled_s is None
    assert "ask for timing" in made.timing.remark
