"""Collectives of compiled programs, counted by hand; `texts.py` describes the programs."""

import re

import pytest

from meshwright.cost_models.hlo import HloCollective, HloModule, collectives

from .texts import ADD, module, program, text

ROWS = ((0, 1, 2, 3), (4, 5, 6, 7))  # groups along model=4 of a mesh data=2 model=4
COLUMNS = ((0, 4), (1, 5), (2, 6), (3, 7))  # along data=2
ALL = (tuple(range(8)),)
KIB, MIB = 1 << 10, 1 << 20
OVER_PARTITIONS = "channel_id=1, use_global_device_ids=true, to_apply=%add"


def brief(read: HloModule) -> list[tuple]:
    return [(each.kind, each.bytes, each.groups, each.count) for each in collectives(read)]


def named(read: HloModule, kind: str) -> HloCollective:
    (found,) = (each for each in collectives(read) if each.kind == kind)
    return found


@pytest.mark.parametrize("name", ["tpu_megatron", "gpu_megatron"])
def test_tensor_parallel_layers(name: str) -> None:
    """Two sums of bf16[512,512] forward, one backward (the input needs no gradient), one of all gradients."""
    activations = ("all-reduce", 512 * 512 * 2, ROWS, 1)
    weights = ("all-reduce", 2 * 2 * (512 * 2048 // 4) * 2, COLUMNS, 1)
    assert brief(module(name)) == [activations, activations, activations, weights]


def test_where_they_come_from() -> None:
    first, *_, last = collectives(module("tpu_megatron"))
    assert (first.name, first.op_name, first.source) == (
        "all-reduce",
        "jit(step)/jvp()/dot_general",
        "/src/step.py:28",
    )
    assert last.parts == (512 * KIB,) * 4


def test_fully_sharded_scan_on_tpu() -> None:
    """Per layer: two weights forward, both again for rematerialization, both gradients in one fusion."""
    gather = ("all-gather", 512 * 2048 * 2, ALL, 6)
    assert brief(module("tpu_fsdp")) == [gather] * 4 + [("reduce-scatter", 2 * 512 * 2048 * 2, ALL, 6)]


def test_asynchronous_fusion_counts_once() -> None:
    """One of the four gathers runs through three fusions: start, beside a matmul, done."""
    found = collectives(module("tpu_fsdp"))
    assert [each.is_async for each in found] == [False, False, False, True, False]
    assert found[3].name == "all-gather.35"


def test_all_reduce_scatter_fusion() -> None:
    found = named(module("tpu_fsdp"), "reduce-scatter")
    assert found.name == "all-reduce.8"
    assert found.parts == (2 * MIB, 2 * MIB)
    assert found.op_name.startswith("jit(step)/transpose(jvp())/while/body/")  # of the fusion around it
    assert found.source == "/src/step.py:40"


def test_fully_sharded_scan_on_gpu() -> None:
    """Both weights travel together."""
    found = collectives(module("gpu_fsdp"))
    assert [(each.kind, each.parts, each.count) for each in found] == [
        ("all-gather", (2 * MIB, 2 * MIB), 6),
        ("all-gather", (2 * MIB, 2 * MIB), 6),
        ("reduce-scatter", (2 * MIB, 2 * MIB), 6),
    ]
    assert [each.is_async for each in found] == [True, False, True]  # the second is marked is_sync


@pytest.mark.parametrize("name", ["tpu_misc", "gpu_misc"])
def test_one_of_each(name: str) -> None:
    read = module(name)
    found = {each.source.rsplit(":")[-1] + each.kind: each for each in collectives(read)}
    assert len(found) == len(collectives(read)) == 5
    permute = named(read, "collective-permute")
    assert permute.pairs == ((0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4))
    assert (permute.bytes, permute.groups) == (128 * 256 * 4 * 4, ROWS)
    exchange = named(read, "all-to-all")
    assert (exchange.bytes, exchange.groups) == (32 * 256 * 4 * 4, ROWS)
    scatter = named(read, "reduce-scatter")
    assert (scatter.bytes, scatter.groups) == (128 * 256 * 4, ROWS)
    sums = [each for each in collectives(read) if each.kind == "all-reduce"]
    assert {(each.bytes, each.groups, each.count, each.conditional) for each in sums} == {
        (256 * 4, COLUMNS, 3 * 5, False),  # in a loop of 3 in a loop of 5
        (128 * 256 * 4, ROWS, 1, True),
    }


def test_asynchronous_pair_of_the_gpu() -> None:
    line = "channel_id=1, replica_groups=[1,2]<=[2], dimensions={0}, use_global_device_ids=true"
    body = f"""  %p = f32[4] parameter(0)
  %s = (f32[4], f32[8]) all-gather-start(%p), {line}
  ROOT %d = f32[8] all-gather-done(%s)"""
    (found,) = collectives(program(body, partitions=2))
    assert (found.kind, found.bytes, found.is_async) == ("all-gather", 32, True)


def test_asynchronous_call() -> None:
    before = """%wrapped (w: f32[4,2]) -> f32[4,2] {
  %w = f32[4,2] parameter(0)
  ROOT %x = f32[4,2] all-to-all(%w), channel_id=3, replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}
}, execution_thread="main"
"""
    body = """  %p = f32[4,2] parameter(0)
  %s = ((f32[4,2]), f32[4,2]) async-start(%p), calls=%wrapped, metadata={op_name="outer"}
  %u = ((f32[4,2]), f32[4,2]) async-update(%s), calls=%wrapped
  ROOT %d = f32[4,2] async-done(%u), calls=%wrapped"""
    (found,) = collectives(program(body, before))
    assert (found.kind, found.bytes, found.is_async, found.op_name) == ("all-to-all", 32 * 4, True, "outer")


def test_offloaded_to_the_sparse_core() -> None:
    """As libtpu 0.0.42.1 writes it for TPU7x: a call that starts, with the collective in what it calls."""
    before = """%called (w: bf16[16,4]) -> bf16[16,8] {
  %w = bf16[16,4]{1,0:T(16,128)(2,1)} parameter(0)
  %t = token[] parameter(1)
  ROOT %x = bf16[16,8]{1,0} all-gather(%w), replica_groups=[4,2]<=[2,4]T(1,0), dimensions={1}, OVER
}, execution_thread="sparsecore"
""".replace("OVER", OVER_PARTITIONS)
    body = """  %p = bf16[16,4]{1,0} parameter(0)
  %t = token[] after-all()
  %s = ((bf16[16,4], token[]), bf16[16,8]) call-start(%p, %t), to_apply=%called
  ROOT %d = bf16[16,8]{1,0} call-done(%s)"""
    (found,) = collectives(program(body, before))
    assert (found.kind, found.bytes, found.groups, found.is_async) == ("all-gather", 256, COLUMNS, True)


@pytest.mark.parametrize(
    "name", ["tpu_megatron", "tpu_fsdp", "tpu_misc", "gpu_megatron", "gpu_fsdp", "gpu_misc"]
)
def test_none_is_dropped(name: str) -> None:
    """Every collective in the text is listed, but for the later parts of asynchronous fusions."""
    opcode = r" (?:all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
    lines = [line for line in text(name).splitlines() if re.search(opcode, line)]
    written = {line.split(" = ")[0].split("%")[1] for line in lines if '"flag_start":"2"' not in line}
    assert written == {each.name for each in collectives(module(name))}


def test_all_to_all_of_pieces() -> None:
    body = """  %p = f32[2] parameter(0)
  ROOT %x = (f32[2], f32[2]) all-to-all(%p, %p), channel_id=1, replica_groups={{0,1}}"""
    (found,) = collectives(program(body, partitions=2))
    assert (found.parts, found.bytes) == ((16, 16), 32)


def test_combined_sum() -> None:
    body = f"""  %p = f32[4] parameter(0)
  %q = bf16[3] constant({{1, 2, 3}})
  ROOT %r = (f32[4], bf16[3]) all-reduce(%p, %q), replica_groups={{{{0,1}}}}, {OVER_PARTITIONS}"""
    (found,) = collectives(program(body, ADD, partitions=2))
    assert (found.parts, found.bytes) == ((16, 6), 22)


@pytest.mark.parametrize(
    "line",
    [
        "all-reduce(%p), channel_id=1, replica_groups={{0},{1}}, use_global_device_ids=true, to_apply=%add",
        "all-reduce(%p), replica_groups={}, to_apply=%add",  # over replicas, of which there is one
        "collective-permute(%p), channel_id=1, source_target_pairs={{0,0},{1,1}}",
        "all-gather(%p), channel_id=1, replica_groups=[2,1]<=[2], dimensions={0}, use_global_device_ids=true",
    ],
)
def test_groups_of_one_are_none(line: str) -> None:
    assert (
        collectives(program(f"  %p = f32[4] parameter(0)\n  ROOT %r = f32[4] {line}", ADD, partitions=2))
        == ()
    )


def test_channel_without_global_ids_joins_all_partitions() -> None:
    body = """  %p = f32[4] parameter(0)
  ROOT %r = f32[4] all-reduce(%p), channel_id=1, replica_groups={{0}}, to_apply=%add"""
    assert collectives(program(body, ADD, partitions=4))[0].groups == ((0, 1, 2, 3),)


FUSED = f"""%fused (f: f32[8]) -> f32[2] {{
  %f = f32[8] parameter(0)
  %r = f32[8] all-reduce(%f), replica_groups={{{{0,1,2,3}}}}, {OVER_PARTITIONS}
  %id = u32[] partition-id()
  %b = f32[8] bitcast(%r)
  %s = f32[2] dynamic-slice(%b, %id), dynamic_slice_sizes={{2}}
  ROOT %result
}}
"""


@pytest.mark.parametrize(
    ("root", "kind"),
    [
        ("%c = bf16[2] convert(%s)", "reduce-scatter"),
        ("%c = (f32[2], f32[8]) tuple(%s, %r)", "all-reduce"),  # the whole sum is used too
    ],
)
def test_fusion_that_slices_a_sum(root: str, kind: str) -> None:
    body = "  %p = f32[8] parameter(0)\n  ROOT %g = f32[2] fusion(%p), kind=kCustom, calls=%fused"
    (found,) = collectives(program(body, ADD + FUSED.replace("%result", root), partitions=4))
    assert (found.kind, found.bytes) == (kind, 32)


def test_the_heavier_branch_counts() -> None:
    branch = """%{name} (p{name}: f32[4]) -> f32[4] {{
  %p{name} = f32[4] parameter(0)
  ROOT %r{name} = f32[{size}] {call}
}}
"""
    gather = f"all-gather(%plight), replica_groups={{{{0,1}}}}, dimensions={{0}}, {OVER_PARTITIONS}"
    permute = "collective-permute(%pheavy), channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"
    before = branch.format(name="light", size=8, call=gather) + branch.format(
        name="heavy", size=4, call=permute
    )
    body = """  %p = f32[4] parameter(0)
  %i = s32[] constant(0)
  ROOT %c = f32[4] conditional(%i, %p, %p), branch_computations={%light, %heavy}"""
    (found,) = collectives(program(body, before))
    assert (found.kind, found.bytes, found.conditional) == ("collective-permute", 64, True)


def test_ragged_exchange_counts_its_input() -> None:
    body = """  %p = f32[8] parameter(0)
  %o = f32[16] broadcast(%p)
  %n = s32[2] constant({0, 4})
  ROOT %r = f32[16] ragged-all-to-all(%p, %o, %n, %n, %n, %n), channel_id=1, replica_groups={{0,1}}"""
    (found,) = collectives(program(body, partitions=2))
    assert (found.kind, found.bytes) == ("ragged-all-to-all", 64)
