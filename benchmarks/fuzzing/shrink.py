"""Makes a failing case smaller while it fails alike.

An operation is replaced by new inputs of its results' types, which keeps every type in the program right, or
left out by returning what it read. Whatever nothing needs any more is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from .cases import Case
from .program import Block, Op, Program, Var, renamed
from .scope import INPUT_REACH


def shrink(case: Case, still_fails: Callable[[Case], bool], time_limit_s: float = 120.0) -> Case:
    """Returns the smallest case found that still fails.

    Args:
        case: fails.
        still_fails: whether a case fails in the same way.
        time_limit_s: seconds after which the smallest case so far is returned.
    """
    deadline_s = time.monotonic() + time_limit_s
    progress = True
    while progress:
        progress = False
        for smaller in _smaller(case):
            if time.monotonic() > deadline_s:
                return case
            if still_fails(smaller):
                case, progress = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with less in them, those that leave out most first."""
    program = case.program
    if len(program.outputs) > 1:
        for name in program.outputs:
            yield _with(case, replace(program, outputs=(name,)))
    if program.is_gradient:
        yield _with(case, replace(program, is_gradient=False))
    yield from (_with(case, smaller) for smaller in _earlier_outputs(program))
    yield from (_with(case, _cut(program, i)) for i in range(len(program.ops)))
    yield from (_with(case, smaller) for smaller in _bypassed(program))
    yield from (_with(case, smaller) for smaller in _inside(program))
    for i in range(len(case.pins)):
        yield replace(case, pins=case.pins[:i] + case.pins[i + 1 :])
    for pins in _coarser_pins(case):
        yield replace(case, pins=pins)
    if case.mesh is not None and len(case.mesh) > 1 and not case.pins:
        yield replace(case, mesh=(case.num_devices,))


def _with(case: Case, program: Program) -> Case:
    program = program.without_dead_code()
    kept = {x.name for x in program.inputs}
    return replace(case, program=program, pins=tuple(p for p in case.pins if p[0] in kept))


def _earlier_outputs(program: Program) -> Iterator[Program]:
    """Returns what the last operation read instead of its result."""
    known = program.vars()
    makers = {r.name: op for op in program.ops for r in op.results}
    for i, name in enumerate(program.outputs):
        if name not in makers:
            continue
        for read in sorted(makers[name].reads()):
            if program.is_gradient and known[read].type.dtype != "float32":
                continue
            outputs = (*program.outputs[:i], read, *program.outputs[i + 1 :])
            yield replace(program, outputs=tuple(dict.fromkeys(outputs)))


def _cut(program: Program, index: int) -> Program:
    """The program with an operation's results given as inputs."""
    op = program.ops[index]
    first = 1 + max((int(x.name[1:]) for x in program.inputs), default=-1)
    inputs = tuple(Var(f"x{first + i}", r.type, r.grain, INPUT_REACH) for i, r in enumerate(op.results))
    names = {r.name: x.name for r, x in zip(op.results, inputs, strict=True)}
    rest = program.ops[:index] + tuple(renamed(o, names) for o in program.ops[index + 1 :])
    outputs = tuple(names.get(n, n) for n in program.outputs)
    return replace(program, inputs=(*program.inputs, *inputs), ops=rest, outputs=outputs)


def _bypassed(program: Program) -> Iterator[Program]:
    """Programs without one operation, its result replaced by an array of the same type that it read."""
    known = program.vars()
    for i, op in enumerate(program.ops):
        for result in op.results[:1] if len(op.results) == 1 else ():
            for read in sorted(op.reads()):
                if known[read].type == result.type:
                    yield _replaced(program, i, {result.name: read})


def _replaced(program: Program, index: int, names: dict[str, str]) -> Program:
    rest = program.ops[:index] + tuple(renamed(o, names) for o in program.ops[index + 1 :])
    return replace(program, ops=rest, outputs=tuple(names.get(n, n) for n in program.outputs))


def _inside(program: Program) -> Iterator[Program]:
    """Programs with one nested operation bypassed."""
    for i, op in enumerate(program.ops):
        for smaller in _smaller_blocks(op):
            yield replace(program, ops=(*program.ops[:i], smaller, *program.ops[i + 1 :]))


def _smaller_blocks(op: Op) -> Iterator[Op]:
    for i, block in enumerate(op.blocks):
        for smaller in _smaller_block(block):
            yield replace(op, blocks=(*op.blocks[:i], smaller, *op.blocks[i + 1 :]))


def _smaller_block(block: Block) -> Iterator[Block]:
    inner = Program(block.params, block.ops, block.outputs)
    known = inner.vars()
    for i, op in enumerate(block.ops):
        for smaller in _smaller_blocks(op):
            yield replace(block, ops=(*block.ops[:i], smaller, *block.ops[i + 1 :]))
        names = {r.name: v.name for r in op.results for v in known.values() if _may_stand_for(v, r, block, i)}
        if len(names) == len(op.results):
            less = _replaced(inner, i, names)
            yield replace(block, ops=less.ops, outputs=less.outputs)


def _may_stand_for(other: Var, result: Var, block: Block, index: int) -> bool:
    earlier = {p.name for p in block.params} | {r.name for op in block.ops[:index] for r in op.results}
    return other.name in earlier and other.type == result.type


def _coarser_pins(case: Case) -> Iterator[tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]]:
    """Pins with one dim less split."""
    for i, (name, spec) in enumerate(case.pins):
        for d, dim in enumerate(spec):
            if dim:
                coarser = (*spec[:d], (), *spec[d + 1 :])
                yield (*case.pins[:i], (name, coarser), *case.pins[i + 1 :])
