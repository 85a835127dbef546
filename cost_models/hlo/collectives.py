"""The communication of a compiled module: kind, bytes, groups and how often each collective runs.

What is counted, and how:

- Asynchronous pairs (`all-gather-start` and `-done`; `async-start` or `call-start` of a computation) once, at
  the start.
- A TPU `async_collective_fusion` repeats one collective in several fusions, the parts of its run; the one
  beside the `AsyncCollectiveStart` call counts.
- An all-reduce in a fusion of which only slices are used (TPU's `all-reduce-scatter`) is a reduce-scatter.
- The permutes of a collective matrix product count as the gather or scatter they stand for (`windowed`).
- Of a conditional, the branch that moves most bytes.
- Groups of one device, and permutes that send nothing to another device, are no communication.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .calls import branches, calls, times
from .frames import Frame
from .groups import Groups, closed_sets, parse_groups, parse_pairs
from .module import Computation, HloModule, Instruction
from .shape import leaves
from .windowed import join_permutes, windowed_kind, without_tails

KINDS = (
    "all-gather",
    "reduce-scatter",
    "all-reduce",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
)
_LOCAL = ("reduce-scatter", "all-reduce", "collective-broadcast")  # priced by what one device holds before
_REPLICA_IDS = ("all-reduce", "all-gather", "reduce-scatter")  # groups list replicas unless told otherwise
_VIEWS = ("bitcast", "get-tuple-element", "copy", "convert", "reshape")


@dataclass(frozen=True)
class HloCollective:
    """One collective of a compiled module.

    Attributes:
        kind: one of `KINDS`.
        bytes: what `cost_models.collectives.collective_time_s` calls `full_bytes`, the sum of `parts`.
            All-gather: its result. Reduce-scatter: its operand. All-reduce and broadcast: what each
            device holds. All-to-all: local bytes times the devices of a group. Permute: local bytes times the
            devices of the largest set among `groups`.
        parts: the same for each array of a combined collective.
        groups: partition ids that take part together. For a permute: the smallest sets of partitions that no
            message leaves.
        pairs: (source, target) of each message of a permute, else empty.
        count: runs in one execution of the module; None where a loop around it has an unknown trip count.
        is_async: the compiler lets it run beside computation.
        conditional: it stands in a branch, and runs only when that is taken.
        name: of the instruction.
        op_name: path of the JAX operation, from the instruction or what encloses it; or "".
        source: `file:line` of the program, or "".
        frames: (file, line) of the whole stack, innermost first.
    """

    kind: str
    bytes: int
    parts: tuple[int, ...]
    groups: Groups
    pairs: tuple[tuple[int, int], ...] = ()
    count: int | None = 1
    is_async: bool = False
    conditional: bool = False
    name: str = ""
    op_name: str = ""
    source: str = ""
    frames: tuple[tuple[str, int], ...] = ()

    @property
    def group_size(self) -> int:
        """Devices of the largest group."""
        return max(map(len, self.groups))


def collectives(module: HloModule) -> tuple[HloCollective, ...]:
    """Every collective one execution of `module` runs, in the order of the text, callees at their caller."""
    return tuple(_in_frame(Frame(module, module.entry)))


def collective_kind(instruction: Instruction) -> str | None:
    """The kind of communication an instruction starts; None for all else, the end of one included."""
    kind = instruction.opcode.removesuffix("-start")
    return kind if kind in KINDS else None


def _in_frame(frame: Frame) -> Iterator[HloCollective]:
    return without_tails(tuple(_sent(frame)))


def _sent(frame: Frame) -> Iterator[HloCollective]:
    for instruction in frame.computation.instructions:
        if collective_kind(instruction) and not _continues(frame.computation, instruction):
            yield from _read(frame, instruction)
        elif instruction.opcode == "conditional":
            taken = [tuple(_in_frame(branch)) for branch in branches(frame, instruction)]
            yield from (replace(each, conditional=True) for each in max(taken, key=_moved, default=()))
        elif kind := windowed_kind(instruction):
            yield from join_permutes(kind, _called(frame, instruction))
        else:
            yield from _called(frame, instruction)


def _called(frame: Frame, instruction: Instruction) -> Iterator[HloCollective]:
    for call in calls(frame, instruction):
        for each in _in_frame(call.frame):
            yield replace(each, count=times(call.times, each.count))


def _moved(found: tuple[HloCollective, ...]) -> int:
    return sum(each.bytes * (1 if each.count is None else each.count) for each in found)


def _continues(computation: Computation, instruction: Instruction) -> bool:
    """It is a later part of an asynchronous collective that another fusion starts."""
    return "async_collective_fusion_config" in instruction.backend_config and not _starts(computation)


def _starts(computation: Computation) -> bool:
    targets = (each.attributes.get("custom_call_target") for each in computation.instructions)
    return '"AsyncCollectiveStart"' in targets


def _read(frame: Frame, instruction: Instruction) -> Iterator[HloCollective]:
    kind = collective_kind(instruction) or ""
    if kind == "all-reduce" and _is_scattered(frame, instruction):
        kind = "reduce-scatter"
    pairs = parse_pairs(instruction.attributes.get("source_target_pairs", ""))
    groups = closed_sets(pairs) if kind == "collective-permute" else _groups(frame, instruction, kind)
    width = max(map(len, groups), default=1)
    if width == 1:
        return
    parts = tuple(size * (1 if kind in _LOCAL else width) for size in _local_bytes(frame, instruction, kind))
    named = _named(frame, instruction)
    yield HloCollective(
        kind=kind,
        bytes=sum(parts),
        parts=parts,
        groups=groups,
        pairs=pairs,
        is_async=_is_async(frame, instruction),
        name=instruction.name,
        op_name=named.op_name,
        source=named.source,
        frames=named.frames,
    )


def _groups(frame: Frame, instruction: Instruction, kind: str) -> Groups:
    """Replica groups as partition ids, after XLA's group modes (xla/service/collective_ops_utils.h).

    Without a channel they join replicas, of which a JAX program has one. With a channel but without global
    ids, reductions and gathers join every partition of the replicas they list.
    """
    module, named = frame.module, instruction.attributes
    if "channel_id" not in named:
        return parse_groups(named.get("replica_groups", "{}"), module.num_replicas)
    if kind in _REPLICA_IDS and named.get("use_global_device_ids") != "true":
        return (tuple(range(module.num_partitions)),)
    return parse_groups(named.get("replica_groups", "{}"), module.num_partitions)


def _local_bytes(frame: Frame, instruction: Instruction, kind: str) -> tuple[int, ...]:
    """Bytes one device gives of each array: those of the operands."""
    operands = [frame.computation.by_name[name] for name in instruction.operands]
    if kind == "ragged-all-to-all" or "slice_sizes" in instruction.attributes:
        operands = operands[:1]  # the others are the output to write into, and offsets
    return tuple(leaf.bytes for operand in operands for leaf in leaves(operand.shape))


def _is_async(frame: Frame, instruction: Instruction) -> bool:
    """It has a start and a done of its own, which the GPU compiler may have put back together."""
    if '"is_sync":true' in instruction.backend_config:
        return False
    at: Frame | None = frame
    while at is not None and at.caller is not None:
        if at.caller.opcode.endswith("-start"):
            return '"is_sync":true' not in at.caller.backend_config
        at = at.parent
    return instruction.opcode.endswith("-start") or _starts(frame.computation)


def _is_scattered(frame: Frame, instruction: Instruction) -> bool:
    """In a fusion, and all that is read of it are slices."""
    if frame.caller is None or frame.caller.opcode != "fusion":
        return False
    return _only_sliced(frame.computation, instruction)


def _only_sliced(computation: Computation, instruction: Instruction) -> bool:
    users = computation.users.get(instruction.name, ())
    return bool(users) and all(
        user.opcode == "dynamic-slice" or (user.opcode in _VIEWS and _only_sliced(computation, user))
        for user in users
    )


def _named(frame: Frame, instruction: Instruction) -> Instruction:
    """The innermost of an instruction and its callers that says where it came from."""
    at: Frame | None = frame
    while at is not None and not (instruction.op_name or instruction.frames) and at.caller is not None:
        instruction, at = at.caller, at.parent
    return instruction
