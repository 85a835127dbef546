"""Trip counts of loops."""

import pytest

from meshwright.cost_models.hlo import collectives
from meshwright.cost_models.hlo.frames import Frame
from meshwright.cost_models.hlo.module import HloModule
from meshwright.cost_models.hlo.trips import trip_count

from .texts import ADD, loop, module, program, while_text

OVER_ALL = "channel_id=1, replica_groups={{}}, use_global_device_ids=true, to_apply=%add"
SUM = "  %r{0} = f32[4] all-reduce(%v{0}), " + OVER_ALL


def trips(read: HloModule) -> list[int | None]:
    frame = Frame(read, read.entry)
    return [trip_count(frame, each) for each in read.entry.instructions if each.opcode == "while"]


def counted(start: int, step: int, condition: str) -> HloModule:
    return program("  %p = f32[4] parameter(0)\n" + while_text(str(start)), loop(str(step), condition))


@pytest.mark.parametrize("name", ["tpu_fsdp", "gpu_fsdp"])
def test_scans(name: str) -> None:
    """The TPU compiler leaves the count in the condition, the GPU compiler notes it."""
    assert trips(module(name)) == [6, 6]


@pytest.mark.parametrize(
    ("start", "step", "condition"),
    [
        (0, 1, "LT 6"),
        (0, 2, "LT 5"),
        (3, 1, "LE 3"),
        (5, -1, "GE 0"),
        (9, -4, "GT 0"),
        (0, 3, "NE 9"),
        (4, 1, "LT 4"),
    ],
)
def test_conditions(start: int, step: int, condition: str) -> None:
    direction, bound = condition.split()
    holds = {"LT": int.__lt__, "LE": int.__le__, "GT": int.__gt__, "GE": int.__ge__, "NE": int.__ne__}[
        direction
    ]
    runs, value = 0, start
    while holds(value, int(bound)):
        runs, value = runs + 1, value + step
    assert trips(counted(start, step, condition)) == [runs]


@pytest.mark.parametrize(("start", "step", "condition"), [(0, -1, "LT 6"), (0, 0, "LT 6"), (0, 2, "NE 5")])
def test_endless(start: int, step: int, condition: str) -> None:
    assert trips(counted(start, step, condition)) == [None]


def test_noted_count_comes_first() -> None:
    noted = while_text("0") + ', backend_config={"known_trip_count":{"n":"11"}}'
    assert trips(program("  %p = f32[4] parameter(0)\n" + noted, loop("1", "LT 6"))) == [11]


def test_through_fusions_and_unchanged_elements() -> None:
    """Bound and step are carried along, the comparison and the addition are fused, start is copied."""
    before = """%add1 (q: s32[], w: s32[]) -> s32[] {
  %q = s32[] parameter(0)
  %w = s32[] parameter(1)
  ROOT %qw = s32[] add(%w, %q)
}

%less (k: s32[], l: s32[]) -> pred[] {
  %k = s32[] parameter(0)
  %l = s32[] parameter(1)
  ROOT %kl = pred[] compare(%l, %k), direction=GT
}

%body (b: (s32[], s32[], s32[])) -> (s32[], s32[], s32[]) {
  %b = (s32[], s32[], s32[]) parameter(0)
  %i = s32[] get-tuple-element(%b), index=0
  %n = s32[] get-tuple-element(%b), index=1
  %s = s32[] get-tuple-element(%b), index=2
  %c = s32[] copy(%s)
  %next = s32[] fusion(%i, %s), kind=kLoop, calls=%add1
  ROOT %out = (s32[], s32[], s32[]) tuple(%next, %n, %c)
}

%cond (c: (s32[], s32[], s32[])) -> pred[] {
  %cc = (s32[], s32[], s32[]) parameter(0)
  %j = s32[] get-tuple-element(%cc), index=0
  %m = s32[] get-tuple-element(%cc), index=1
  ROOT %t = pred[] fusion(%j, %m), kind=kLoop, calls=%less
}
"""
    body = """  %zero = s32[] constant(0)
  %start = s32[] copy(%zero)
  %bound = s32[] constant(7)
  %step = s32[] constant(2)
  %init = (s32[], s32[], s32[]) tuple(%start, %bound, %step)
  ROOT %w1 = (s32[], s32[], s32[]) while(%init), condition=%cond, body=%body"""
    assert trips(program(body, before)) == [4]


def test_nested_counts_multiply() -> None:
    inner = loop("1", "LT 3", SUM.format("I"), name="I")
    outer = loop("1", "LT 5", while_text("0", "I", "v"), name="")
    read = program("  %p = f32[4] parameter(0)\n" + while_text("0"), ADD + inner + outer)
    assert [each.count for each in collectives(read)] == [15]


def test_unknown_count_is_none_and_not_a_number() -> None:
    body = "  %p = f32[4] parameter(0)\n" + while_text("0").replace("s32[] constant(0)", "s32[] parameter(1)")
    read = program(body, ADD + loop("1", "LT 6", SUM.format("")))
    assert [each.count for each in collectives(read)] == [None]
