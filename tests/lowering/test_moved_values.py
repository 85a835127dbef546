"""Values read in two layouts: moved in the stages planned, and read where they lie by all other readers.

A plan is written by hand in which one value after another is kept in one layout and read in another, for
pairs of layouts that differ by more than the order of dims.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest

from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.ir import Program, Value
from meshwright.compiler.lowering import SpmdProgram, device_mesh
from meshwright.compiler.plan import Plan, Reshard, ValueLayout
from meshwright.compiler.plan.plan import Spec
from meshwright.compiler.planner import PlanOptions, plan_program
from meshwright.compiler.planner.layout import Layout, enumerate_layouts, spec_of
from meshwright.compiler.rules import RuleBook
from meshwright.cost_models.cluster import Cluster

NAMES = ("x", "y", "z")

Pair = tuple[Layout, Layout]


@pytest.fixture
def nothing_cached() -> Iterator[None]:
    """Programs compile anew: the partitioner says nothing of one that comes from the cache."""
    name = "jax_persistent_cache_min_compile_time_secs"
    before = getattr(jax.config, name)
    jax.config.update(name, 1e9)
    yield
    jax.config.update(name, before)


def pairs(shape: Sequence[int], mesh_shape: Sequence[int]) -> list[Pair]:
    """All pairs of layouts, one of those that permuting the dims (of one size) turns into each other."""
    found: dict[Any, Pair] = {}
    layouts = enumerate_layouts(shape, mesh_shape)
    for source, target in itertools.product(layouts, layouts):
        columns = sorted(zip(source.dims, target.dims, strict=True))
        found.setdefault(tuple(columns), (source, target))
    return [pair for pair in found.values() if pair[0] != pair[1]]


def both_read(x: Any, count: int) -> list[jax.Array]:
    """Of each of several values, the sine is wanted in another layout and the cosine in its own."""
    moved = [x * (i + 2.0) + 1.0 for i in range(count)]
    return [f(v) for v in moved for f in (jnp.sin, jnp.cos)]


def planned(program: Program, moves: Sequence[Pair], mesh_shape: Sequence[int]) -> Plan:
    """A plan of ``both_read``: each value lies in the first layout of its pair and is read in the second."""
    names = NAMES[: len(mesh_shape)]
    options = PlanOptions(mesh=dict(zip(names, mesh_shape, strict=True)), effort=0)
    plan = plan_program(program, Cluster.load("cpu:8"), options, RuleBook())
    table: dict[Layout, int] = {Layout(((),) * program.graph.inputs[0].type.rank): 0}
    for layout in itertools.chain.from_iterable(moves):
        table.setdefault(layout, len(table))
    values, reshards = [0] * program.num_values, []
    nodes = {op: [n for n in program.graph.nodes if n.op == op] for op in ("mul", "add", "sin", "cos")}
    for i, (source, target) in enumerate(moves):
        for op, layout in (("mul", source), ("add", source), ("cos", source), ("sin", target)):
            values[nodes[op][i].results[0].index] = table[layout]
        reshards.append(Reshard(nodes["sin"][i].index, -1, 0, table[target]))
    specs = [spec_of(layout, names) for layout in table]
    return msgspec.structs.replace(
        plan,
        layouts=tuple(ValueLayout(spec) for spec in specs),
        values=tuple(values),
        reshards=tuple(reshards),
        arguments=_with_specs(plan.arguments, [specs[0]]),
        results=_with_specs(plan.results, [specs[values[_index(o)]] for o in program.graph.outputs]),
    )


def _index(output: Any) -> int:
    assert isinstance(output, Value)
    return output.index


def _with_specs(arrays: Sequence[Any], specs: Sequence[Spec]) -> tuple[Any, ...]:
    return tuple(msgspec.structs.replace(a, spec=s) for a, s in zip(arrays, specs, strict=True))


def compiled(shape: Sequence[int], moves: Sequence[Pair], mesh_shape: Sequence[int]) -> Any:
    x = jax.ShapeDtypeStruct(tuple(shape), jnp.float32)
    program = trace_program(functools.partial(both_read, count=len(moves)), TraceOptions(), (x,), {})
    plan = planned(program, moves, mesh_shape)
    spmd = SpmdProgram(program, plan, device_mesh(plan.mesh, jax.devices("cpu")))
    jitted = jax.jit(
        lambda *xs: spmd(xs), in_shardings=spmd.argument_shardings, out_shardings=spmd.result_shardings
    )
    return jitted.lower(x).compile()


@pytest.mark.parametrize(
    ("rank", "mesh_shape", "step"),
    [(3, (2, 4), 1), (3, (2, 2, 2), 12), (4, (2, 4), 1), (4, (2, 2, 2), 12)],
    ids=str,
)
def test_no_move_needs_a_full_copy(
    rank: int, mesh_shape: tuple[int, ...], step: int, nothing_cached, devices, capfd
) -> None:
    shape = (8,) * rank
    moves = pairs(shape, mesh_shape)[::step]
    assert len(moves) > 40
    run = compiled(shape, moves, mesh_shape)
    assert "Involuntary full rematerialization" not in capfd.readouterr().err
    x = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    for found, expected in zip(run(x), both_read(x, len(moves)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_other_readers_read_a_moved_value_where_it_lies(devices) -> None:
    """Shardy lets them use the moved copy unless the value has a constraint of its own."""
    source, target = Layout(((0, 1), (), ())), Layout(((), (), (0, 1)))
    text = compiled((8, 4, 16), [(source, target)], (2, 4)).as_text()
    assert text.count(" all-to-all(") == 1
    assert " all-gather(" not in text
