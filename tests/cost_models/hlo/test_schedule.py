"""Timelines and compute estimates, added up by hand."""

import pytest

from meshwright.cost_models.errors import HloFormatError
from meshwright.cost_models.hlo import (
    CYCLES_PER_S,
    Timeline,
    estimated_compute_s,
    estimated_timeline,
    parse_module,
    read_timeline,
    schedule_path,
)

from .texts import loop, module, program, text, while_text

V5E = CYCLES_PER_S["v5e"]


def instruction(number: int, name: str, opcode: str, more: str = "") -> str:
    named = f'      name: "{name}"\n      opcode: "{opcode}"\n      id: {number}\n'
    return f"    instructions {{\n{named}{more}    }}\n"


def scheduled(number: int, start: float, end: float) -> str:
    times = f"    start_timestamp_cycles: {start}\n    end_timestamp_cycles: {end}\n"
    return f"  instructions {{\n    id: {number}\n{times}  }}\n"


def small(*times: tuple[int, float, float], rate: str = "2") -> str:
    """A dump of a gather (10, 11), a copy (20, 21) and two fusions (30, 31), at 2 cycles/us."""
    parts = [
        instruction(10, "all-gather-start", "all-gather-start"),
        instruction(11, "all-gather-done", "all-gather-done", "      operand_ids: 10\n"),
        instruction(20, "copy-start", "copy-start"),
        instruction(21, "copy-done", "copy-done", "      operand_ids: 20\n"),
        instruction(30, "first", "fusion"),
        instruction(31, "second", "fusion"),
    ]
    listed = "".join(scheduled(*each) for each in times)
    return (
        'hlo_module {\n  name: "m"\n  entry_computation_name: "main"\n'
        f'  computations {{\n    name: "main"\n{"".join(parts)}    id: 1\n    root_id: 31\n  }}\n}}\n'
        f"computation_schedules {{\n  computation_id: 1\n{listed}  cycles_per_microsecond: {rate}\n}}\n"
    )


def in_us(timeline: Timeline) -> tuple[float, float]:
    return round(timeline.compute_s * 1e6, 6), round(timeline.exposed_communication_s * 1e6, 6)


def test_hidden_and_exposed_transfer() -> None:
    """The gather flies from 2 to 12, the first fusion hides 4 cycles of that; its start takes 2 more."""
    dump = small((10, 0, 2), (30, 2, 6), (11, 12, 12), (31, 12, 20))
    assert in_us(read_timeline(dump)) == ((4 + 8) / 2, (2 + 6) / 2)


def test_waits_by_what_is_in_flight() -> None:
    copy = small((20, 0, 0), (21, 6, 6), (31, 6, 8))
    assert in_us(read_timeline(copy)) == (4.0, 0.0)  # waiting for memory is no communication
    padding = small((30, 0, 2), (31, 5, 7))
    assert in_us(read_timeline(padding)) == (2.0, 0.0)  # the gap from 2 to 5 is nobody's


def test_spans() -> None:
    first, second = read_timeline(small((31, 4, 6), (10, 0, 1))).spans
    assert (first.name, first.opcode, first.is_communication) == (
        "all-gather-start",
        "all-gather-start",
        True,
    )
    assert (second.name, second.start_s, second.end_s, second.computation, second.count) == (
        "second",
        2e-6,
        3e-6,
        "main",
        1,
    )


def test_tpu_dump_and_estimates() -> None:
    """Two loops of 6; the entry, without a schedule, is priced by the estimates of its fusions.

    Waits for gathers: 59157.4 and 49031.3 cycles. The reduce-scatter fusion: 33716.3. Starts and dones: 8.
    """
    timeline = read_timeline(text("tpu_fsdp.schedule"), module("tpu_fsdp"))
    assert timeline.exposed_communication_s == pytest.approx(
        6 * (59157.4 + 49031.3 + 33716.3 + 8) / V5E, rel=1e-5
    )
    assert timeline.total_s == pytest.approx(timeline.compute_s + timeline.exposed_communication_s)
    scatter = next(span for span in timeline.spans if span.name == "fusion.69")
    assert (scatter.is_communication, scatter.count) == (True, 6)
    assert scatter.end_s - scatter.start_s == pytest.approx(33716.27 / V5E, rel=1e-6)


def test_what_has_no_time_is_named() -> None:
    timeline = read_timeline(text("tpu_fsdp.schedule"))
    assert timeline.total_s is None
    assert timeline.unpriced == (
        "custom-call",
        "multiply_convert_fusion",
        "multiply_subtract_fusion.1",
        "multiply_subtract_fusion",
    )


def test_gpu_dump() -> None:
    """In us: 15 sums wait 121.72 with two ends of 1; the taken branch 25.05 likewise; three more."""
    timeline = read_timeline(text("gpu_misc.schedule"), module("gpu_misc"))
    inner, branch = 15 * (124.72 - 3 + 2), 28.05 - 3 + 2
    rest = (33.47 - 16.81 + 2) + (64.01 - 35.47 + 2) + (101.37 - 66.01 + 2)
    assert timeline.exposed_communication_s * 1e6 == pytest.approx(inner + branch + rest, rel=1e-3)
    # The outer loop's body has no schedule, and of the other branch nothing is asynchronous.
    assert (timeline.total_s, timeline.unpriced) == (None, ("loop_multiply_fusion.1", "loop_add_fusion.1"))


def test_estimates_of_a_tpu_module() -> None:
    """16 fusions and nothing around them."""
    read = module("tpu_megatron")
    cycles = estimated_compute_s(read, 1.0)
    assert cycles == 109060
    timeline = estimated_timeline(read, V5E)
    assert timeline.total_s is None
    assert timeline.compute_s == pytest.approx(cycles / V5E)
    assert timeline.unpriced == ("all-reduce", "all-reduce.1", "all-reduce.2", "all-reduce.7")


def test_estimates_multiply_in_loops() -> None:
    inside = '  %f = f32[4] negate(%v), backend_config={"window_config":{"estimated_cycles":"100"}}'
    lines = "  %p = f32[4] parameter(0)\n" + while_text("0")
    assert estimated_compute_s(program(lines, loop("1", "LT 6", inside)), 1e3) == pytest.approx(0.6)
    unknown = lines.replace("s32[] constant(0)", "s32[] parameter(1)")
    assert estimated_compute_s(program(unknown, loop("1", "LT 6", inside)), 1e3) is None


def test_the_largest_integer_is_no_estimate() -> None:
    """As libtpu writes it beside work for the SparseCore."""
    body = '  ROOT %p = f32[4] parameter(0), backend_config={"estimated_cycles":"9223372036854775807"}'
    assert estimated_compute_s(program(body), V5E) is None


def test_gpu_figures_are_not_taken() -> None:
    """The compiler wrote some into this module; one like them was 52 s for an elementwise fusion."""
    assert "exec_time_us" in text("gpu_misc")
    assert estimated_compute_s(module("gpu_misc"), V5E) is None


def test_path(tmp_path) -> None:
    assert schedule_path(tmp_path, "jit_step") is None
    (tmp_path / "jit_step.schedule.txt").write_text("")
    assert schedule_path(tmp_path, "jit_step") == tmp_path / "jit_step.schedule.txt"


@pytest.mark.parametrize(
    ("dump", "says"),
    [
        ("", "no hlo_module"),
        ("hlo_module {", "not closed"),
        ("}", "line 1: a bracket closes nothing"),
        ("hlo_module {\n  what\n}", "line 2: not a field"),
        (small((31, 0, 1), rate="0"), "no cycles_per_microsecond"),
    ],
)
def test_bad_dumps(dump: str, says: str) -> None:
    with pytest.raises(HloFormatError, match=says):
        read_timeline(dump)


def test_module_alone_has_no_time() -> None:
    read = parse_module("HloModule m\n\nENTRY %e () -> f32[] {\n  ROOT %c = f32[] constant(1)\n}\n")
    assert estimated_compute_s(read, V5E) is None
    assert estimated_timeline(read, V5E).total_s == 0
