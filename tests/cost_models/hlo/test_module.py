"""Optimized HLO as data, real and hand-written."""

import pickle

import pytest

from meshwright.cost_models.errors import HloFormatError
from meshwright.cost_models.hlo import ArrayShape, TupleShape, parse_module

from .texts import module, program


def test_reads_a_tpu_module() -> None:
    read = module("tpu_megatron")
    assert (read.name, read.num_partitions, read.num_replicas, read.is_scheduled) == ("jit_step", 8, 1, True)
    assert read.entry.root.opcode == "tuple"
    first = read.entry.by_name["all-reduce"]
    assert first.shape == ArrayShape("bf16", (512, 512))
    assert first.operands == ("fusion.5",)
    assert first.calls == {"to_apply": ("add.clone",)}
    assert first.op_name == "jit(step)/jvp()/dot_general"
    assert first.source == "/src/step.py:28"
    assert [line for _, line in first.frames] == [28, 30, 85]


def test_order_and_nesting_survive() -> None:
    read = module("tpu_fsdp")
    loops = [each for each in read.entry.instructions if each.opcode == "while"]
    assert [each.calls["body"] for each in loops] == [
        ("wide.region_0.1_spmd.sunk",),
        ("wide.region_2.3_spmd.sunk",),
    ]
    assert isinstance(loops[0].shape, TupleShape)
    assert loops[0].shape.elements[:2] == (ArrayShape("s32", ()), ArrayShape("bf16", (128, 512)))
    assert len(loops[0].shape.elements) == 6  # a comment `/*index=5*/` stands before the last


def test_metadata_of_older_printers() -> None:
    line = (
        '  ROOT %p = f32[4]{0} parameter(0), metadata={op_name="a \\"b\\"" source_file="x.py" source_line=7}'
    )
    root = program(line).entry.root
    assert (root.op_name, root.source, root.literal) == ('a "b"', "x.py:7", "0")


@pytest.mark.parametrize(("parents", "lines"), [((1, 2), [5, 3]), ((0, 1), [5, 3])])
def test_callers_numbered_one_too_high_or_not(parents: tuple[int, int], lines: list[int]) -> None:
    text = f"""HloModule m

FileNames
1 "a b.py"

FileLocations
1 {{file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=2}}
2 {{file_name_id=1 function_name_id=1 line=5 end_line=5 column=1 end_column=2}}

StackFrames
1 {{file_location_id=1 parent_frame_id={parents[0]}}}
2 {{file_location_id=2 parent_frame_id={parents[1]}}}

ENTRY %main () -> f32[] {{
  ROOT %c = f32[] constant(1), metadata={{op_name="one" stack_frame_id=2}}
}}
"""
    root = parse_module(text).entry.root
    assert root.frames == tuple(("a b.py", line) for line in lines)
    assert (root.source_file, root.source_line) == ("a b.py", 5)


@pytest.mark.parametrize(
    ("spelled", "size"),
    [
        ("f8e4m3fn[4,3]{1,0:T(8,128)(4,1)}", 12),
        ("f4e2m1fn[5]", 3),
        ("s4[3]{0:E(4)}", 2),
        ("u2[8]", 2),
        ("pred[7]{0}", 7),
        ("bf16[2,3]", 12),
        ("c64[2]", 16),
        ("c128[]", 16),
        ("token[]", 0),
        ("f32[<=8,2]", 64),
        ("(f32[2], /*index=1*/(s32[], token[]), u8[0])", 12),
    ],
)
def test_bytes_of_shapes(spelled: str, size: int) -> None:
    assert program(f"  ROOT %p = {spelled} parameter(0)").entry.root.shape.bytes == size


def test_strings_hide_brackets_and_commas() -> None:
    call = program('  ROOT %c = f32[] custom-call(), custom_call_target="a,(\\"", backend_config={"k":"}{,"}')
    assert call.entry.root.attributes["custom_call_target"] == '"a,(\\""'
    assert call.entry.root.backend_config == '{"k":"}{,"}'
    assert call.entry.root.operands == ()


def test_operands_printed_with_their_shapes() -> None:
    root = program(
        "  %p = f32[4] parameter(0)\n  ROOT %n = f32[4] add(f32[4]{0} %p, f32[4]{0} %p)"
    ).entry.root
    assert root.operands == ("p", "p")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ENTRY %main () -> f32[] {", "no line starts with 'HloModule'"),
        ("HloModule m\n\nENTRY %main () -> f32[] {\n  %p = f32[] parameter(0)", "main is not closed"),
        ("HloModule m\n\n%f () -> f32[] {\n  %p = f32[] parameter(0)\n}", "no computation is marked ENTRY"),
        ("HloModule m\n\nENTRY %f () -> f32[] {\n  %p = f32[] parameter(0\n}", "line 4: '(' is not closed"),
        ("HloModule m\n\nENTRY %f () -> f32[] {\n  parameter\n}", "line 4: not an instruction"),
        ("HloModule m\n\nENTRY %f () -> f32[] {\n}", "line 4: computation f is empty"),
    ],
)
def test_errors_name_the_line(text: str, says: str) -> None:
    with pytest.raises(HloFormatError) as caught:
        parse_module(text)
    assert says in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
