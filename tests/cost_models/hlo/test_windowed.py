"""Permutes of a collective matrix product count as what they stand for."""

from __future__ import annotations

from meshwright.cost_models.hlo.collectives import collectives
from meshwright.cost_models.hlo.module import parse_module

PAIRS = "source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"
BACK = "source_target_pairs={{0,3},{1,0},{2,1},{3,2}}"
NAMED = 'metadata={op_name="jit(f)/dot_general" source_file="f.py" source_line=3}'
TEXT = f"""HloModule m, num_partitions=4

%windowed_dot_general_body_rs.1 (p: (f32[8,4], s32[])) -> (f32[8,4], s32[]) {{
  %p = (f32[8,4], s32[]) parameter(0)
  %part = f32[8,4] get-tuple-element(%p), index=0
  %i = s32[] get-tuple-element(%p), index=1
  %ahead = f32[8,4] collective-permute(%part), channel_id=1, {PAIRS}, {NAMED}
  %back = f32[8,4] collective-permute(%ahead), channel_id=2, {BACK}, {NAMED}
  ROOT %t = (f32[8,4], s32[]) tuple(%back, %i)
}}

%cond (q: (f32[8,4], s32[])) -> pred[] {{
  %q = (f32[8,4], s32[]) parameter(0)
  %j = s32[] get-tuple-element(%q), index=1
  %n = s32[] constant(2)
  ROOT %lt = pred[] compare(%j, %n), direction=LT
}}

ENTRY %main (x: f32[8,4], y: f32[8,4]) -> f32[8,4] {{
  %x = f32[8,4] parameter(0)
  %y = f32[8,4] parameter(1)
  %zero = s32[] constant(0)
  %start = (f32[8,4], s32[]) tuple(%x, %zero)
  %loop = (f32[8,4], s32[]) while(%start), condition=%cond, body=%windowed_dot_general_body_rs.1, BACKEND
  %out = f32[8,4] get-tuple-element(%loop), index=0
  %tail = f32[8,4] collective-permute(%out), channel_id=3, {PAIRS}, {NAMED}
  ROOT %other = f32[8,4] collective-permute(%tail), channel_id=4, {PAIRS}
}}
"""
BACKEND = 'backend_config={"known_trip_count":{"n":"2"}}'


def test_a_windowed_loop_is_one_reduce_scatter() -> None:
    scatter, other = collectives(parse_module(TEXT.replace("BACKEND", BACKEND)))
    assert (scatter.kind, scatter.bytes, scatter.count) == ("reduce-scatter", 8 * 4 * 4 * 4, 1)
    assert scatter.groups == ((0, 1, 2, 3),)
    assert scatter.source == "f.py:3"
    assert scatter.is_async
    # A permute of another operation is none of the loop's.
    assert (other.kind, other.name) == ("collective-permute", "other")


def test_any_other_loop_sends_permutes() -> None:
    text = TEXT.replace("BACKEND", BACKEND).replace("windowed_dot_general_body_rs.1", "body")
    assert [(c.kind, c.count) for c in collectives(parse_module(text))] == [
        ("collective-permute", 2),
        ("collective-permute", 2),
        ("collective-permute", 1),
        ("collective-permute", 1),
    ]


def test_a_gather_beside_a_product() -> None:
    text = TEXT.replace("BACKEND", BACKEND).replace("body_rs", "body_ag")
    assert collectives(parse_module(text))[0].kind == "all-gather"
