"""Runs a program's graph again under ``jit``, with the plan's layouts as sharding constraints.

XLA's partitioner follows constraints and fills in the rest. A constraint stands on every result whose layout
the plan decides, and on every read in another layout than the value's own, so that the reshard happens where
it was priced. Pending sums cannot be written as constraints; the next decided layout makes the partitioner
reduce there. Regions are traced again with the constraints inside. Opaque calls, which the partitioner would
make on gathered operands, are made on the planned parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from ..analysis.user_shardings import CONSTRAINT
from ..frontend.importer import REGION_PARAMS
from ..ir import Graph, Node, Operand, Program, Value
from ..jax_compat import bind, closed_jaxpr_function, equation_scope, is_extended, open_jaxpr
from ..plan import Plan
from ..planner.layout import layout_of, spec_of
from ..planner.reshard import reshard_stages, reshard_steps
from ..rules.local_call import planned_call
from .placement import named_sharding
from .read_copies import ReadCopies

Rebuild = Callable[["SpmdProgram", Node, list[Any]], list[Any]]


class SpmdProgram:
    """A program with its plan on a JAX mesh, callable on flat arguments under a ``jit`` trace."""

    def __init__(self, program: Program, plan: Plan, mesh: Mesh | AbstractMesh) -> None:
        """Prepares shardings.

        Args:
            program: the traced program.
            plan: a plan of the same fingerprint.
            mesh: the mesh of the plan on real or abstract devices.
        """
        self._program = program
        self._plan = plan
        self._mesh = mesh
        self._layouts = [layout_of(entry, plan.mesh.axis_names) for entry in plan.layouts]
        self._table = [None if entry.partial else named_sharding(mesh, entry.spec) for entry in plan.layouts]
        self._reads = {(r.node, r.region, r.position): r.layout for r in plan.reshards}
        self.argument_shardings = [named_sharding(mesh, a.spec) for a in plan.arguments]
        self.result_shardings = [named_sharding(mesh, r.spec) for r in plan.results]

    def __call__(self, arguments: Sequence[Any]) -> list[Any]:
        """Evaluates the program.

        Args:
            arguments: flat arguments, as the program's inputs.

        Returns:
            Flat results.
        """
        graph = self._program.graph
        outputs = self._run(graph, arguments)
        pairs = enumerate(zip(outputs, graph.outputs, strict=True))
        return [self._reshard(x, o, (-1, 0, i)) for i, (x, o) in pairs]

    def _run(self, graph: Graph, arguments: Sequence[Any]) -> list[Any]:
        env: dict[Value, Any] = dict(zip(graph.inputs, arguments, strict=True))
        for value, array in zip(graph.constants, graph.constant_values, strict=True):
            env[value] = self._constrain(array, self._kept(value))
        copies = ReadCopies()
        for node in graph.nodes:
            # Reshards too belong to the user's line that needs them.
            with equation_scope(node.source_info, node.context):
                operands = [self._operand(node, i, env, copies) for i in range(len(node.operands))]
                results = self._bind(node, operands)
                for value, result in zip(node.results, results, strict=True):
                    env[value] = self._constrain(result, self._decided(node, value))
        return [_read(env, output) for output in graph.outputs]

    def _operand(self, node: Node, position: int, env: Mapping[Value, Any], copies: ReadCopies) -> Any:
        operand = node.operands[position]
        array = _read(env, operand)
        wanted = self._reads.get((node.index, -1, position))
        if wanted is None or not isinstance(operand, Value):
            return array
        if not self._communicates(operand, wanted):
            return self._moved(array, operand, wanted)
        made_after = [_read(env, o) for o in node.operands if isinstance(o, Value) and o is not operand]
        return copies.read(
            (operand, wanted),
            node.index,
            lambda source: self._moved(source, operand, wanted),
            array,
            made_after,
        )

    def _bind(self, node: Node, operands: list[Any]) -> list[Any]:
        if node.op == CONSTRAINT:
            # The plan's own constraint on the result says the same, on the plan's mesh.
            return operands
        if node.regions:
            return _REBUILD[node.op](self, node, operands)
        made = planned_call(node, self._mesh, self._specs(node), operands)
        return bind(node.primitive, operands, node.params) if made is None else made

    def _specs(self, node: Node) -> list[PartitionSpec]:
        """The planned spec of each operand as the node reads it, then of each result."""
        read = [self._read_layout(node, i, operand) for i, operand in enumerate(node.operands)]
        return [self._spec(layout) for layout in (*read, *(self._plan.values[r.index] for r in node.results))]

    def _read_layout(self, node: Node, position: int, operand: Operand) -> int:
        kept = self._plan.values[operand.index] if isinstance(operand, Value) else -1
        return self._reads.get((node.index, -1, position), kept)

    def _spec(self, layout: int) -> PartitionSpec:
        """A layout of the plan's table, summed up; nothing is split where nothing is decided."""
        if layout < 0:
            return PartitionSpec()
        return named_sharding(self._mesh, self._plan.layouts[layout].spec).spec

    def _kept(self, value: Value) -> NamedSharding | None:
        index = self._plan.values[value.index]
        return self._table[index] if index >= 0 else None

    def _decided(self, node: Node, value: Value) -> NamedSharding | None:
        """The constraint on a result.

        It stands on elementwise results too, whose layout an operand would hand on: a reshard after them
        otherwise reaches back through them, and meets the partitioner halfway in a full copy.
        """
        if value.type.rank == 0:
            return None
        if node.op == "gather" and self._is_pending(value):
            # Asked for parts of the sum, XLA (jaxlib 0.10.2) cuts the gather's slices, and fails where these
            # are split too. It makes a reduce-scatter of the sum and the cut where it can.
            return named_sharding(self._mesh, self._plan.layouts[self._plan.values[value.index]].spec)
        return self._kept(value)

    def _is_pending(self, value: Value) -> bool:
        index = self._plan.values[value.index]
        return index >= 0 and bool(self._plan.layouts[index].partial)

    def _reshard(self, array: Any, operand: Operand, site: tuple[int, int, int]) -> Any:
        """The array in the layout wanted at a place, by way of the stages the planner priced."""
        wanted = self._reads.get(site)
        if wanted is None or not isinstance(operand, Value):
            return array
        return self._moved(array, operand, wanted)

    def _moved(self, array: Any, value: Value, wanted: int) -> Any:
        for sharding in self._stages(value, wanted):
            array = self._constrain(array, sharding)
        return array

    def _communicates(self, value: Value, wanted: int) -> bool:
        kept, target = self._plan.values[value.index], self._layouts[wanted]
        if kept < 0:
            return False
        return bool(reshard_steps(value.type, self._layouts[kept], target, self._plan.mesh.shape))

    def _stages(self, value: Value, wanted: int) -> list[NamedSharding]:
        kept, target = self._plan.values[value.index], self._layouts[wanted]
        if kept < 0 or target.partial:
            return []
        mesh = self._plan.mesh
        stages = reshard_stages(value.type.shape, self._layouts[kept], target, mesh.shape)
        return [named_sharding(self._mesh, spec_of(stage, mesh.axis_names)) for stage in stages]

    def _constrain(self, array: Any, sharding: NamedSharding | None) -> Any:
        if sharding is None or is_extended(array.dtype):
            return array
        return jax.lax.with_sharding_constraint(array, sharding)

    def region(self, node: Node, index: int) -> Any:
        """A region as a closed jaxpr with the constraints inside; its constants are its first inputs."""
        graph = node.regions[index]

        def body(constants: Sequence[Any], *arguments: Any) -> list[Any]:
            entered = [
                self._constrain(x, self._kept(v)) for v, x in zip(graph.inputs, arguments, strict=True)
            ]
            outputs = self._run_with(graph, constants, entered)
            pairs = enumerate(zip(outputs, graph.outputs, strict=True))
            return [self._reshard(x, o, (node.index, index, i)) for i, (x, o) in pairs]

        return jax.make_jaxpr(body)(graph.constant_values, *_region_avals(node, index))

    def _run_with(self, graph: Graph, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
        traced = Graph(graph.inputs, graph.constants, tuple(constants), graph.nodes, graph.outputs)
        return self._run(traced, arguments)


def _read(env: Mapping[Value, Any], operand: Operand) -> Any:
    return env[operand] if isinstance(operand, Value) else operand.value


def _region_avals(node: Node, index: int) -> list[Any]:
    """Abstract inputs of a region as JAX traced them, weak types included."""
    programs = []
    for name in REGION_PARAMS[node.op]:
        param = node.params[name]
        programs += param if isinstance(param, tuple) else [param]
    jaxpr = getattr(programs[index], "jaxpr", programs[index])
    return [
        jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype, weak_type=v.aval.weak_type) for v in jaxpr.invars
    ]


def _scan(spmd: SpmdProgram, node: Node, operands: list[Any]) -> list[Any]:
    constants = list(node.regions[0].constant_values)
    params = {
        **node.params,
        "jaxpr": spmd.region(node, 0),
        "num_consts": node.params["num_consts"] + len(constants),
    }
    return bind(node.primitive, [*constants, *operands], params)


def _while(spmd: SpmdProgram, node: Node, operands: list[Any]) -> list[Any]:
    extra = [list(region.constant_values) for region in node.regions]
    n_cond, n_body = node.params["cond_nconsts"], node.params["body_nconsts"]
    params = {
        **node.params,
        "cond_jaxpr": spmd.region(node, 0),
        "body_jaxpr": spmd.region(node, 1),
        "cond_nconsts": n_cond + len(extra[0]),
        "body_nconsts": n_body + len(extra[1]),
    }
    return bind(node.primitive, [*extra[0], *operands[:n_cond], *extra[1], *operands[n_cond:]], params)


def _cond(spmd: SpmdProgram, node: Node, operands: list[Any]) -> list[Any]:
    # All branches read the same operands, so constants of one would have to be operands of all: they stay
    # inside.
    branches = tuple(_with_own_constants(spmd, node, i) for i in range(len(node.regions)))
    return bind(node.primitive, operands, {**node.params, "branches": branches})


def _with_own_constants(spmd: SpmdProgram, node: Node, index: int) -> Any:
    closed = spmd.region(node, index)
    constants = node.regions[index].constant_values
    if not constants:
        return closed
    run = closed_jaxpr_function(closed)
    return jax.make_jaxpr(lambda *arguments: run(*constants, *arguments))(*_region_avals(node, index))


def _remat(spmd: SpmdProgram, node: Node, operands: list[Any]) -> list[Any]:
    params = {**node.params, "jaxpr": open_jaxpr(spmd.region(node, 0))}
    return bind(node.primitive, [*node.regions[0].constant_values, *operands], params)


_REBUILD: dict[str, Rebuild] = {
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "remat2": _remat,
    "checkpoint": _remat,
}
