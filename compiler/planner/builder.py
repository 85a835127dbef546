"""Builds the planner's model from a program.

Every operation becomes a variable over its strategies; inputs, loop carries, loop slices and results become
variables over plain layouts. Every read becomes an edge that costs the reshard from the layout at hand to the
layout wanted. A loop body's decisions weigh as often as it runs; a carry is one variable for entry, body and
exit, so its layout is the same at all three. ``remat`` regions are planned through as if inlined. Results
that replace an input (``Program.carried``) are read in that input's layout, so state leaves a step as it
came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...cost_models.mesh import LogicalMesh
from ..analysis.fusion import materialised_values
from ..analysis.op_kind import is_fusible
from ..ir import Graph, Node, Operand, Program, TensorType, Value
from ..rules import RuleBook
from ..rules.registry import rule_key
from .costs import Traffic, strategy_costs
from .edges import EdgeTable, Layouts
from .layout import Layout, enumerate_layouts, replicated
from .lifetimes import Lifetimes
from .model import Definition, Model, Read, Site, Variable
from .solver.problem import Edge, Problem
from .strategies import Strategy, node_strategies

# Of two layouts that cost the same, the one that keeps fewer bytes of an argument on a device wins: this
# share of the time to read them once. Small enough never to outweigh a collective or a kernel.
_TIE_BREAK = 1e-3

# A while loop's trip count is not in the program; XLA's auto-sharding assumes 100.
_WHILE_TRIPS = 100.0


class ModelBuilder:
    """Walks a program once in execution order; ``build`` returns the model."""

    def __init__(
        self, program: Program, mesh: LogicalMesh, rules: RuleBook, pins: Mapping[int, Layout]
    ) -> None:
        """Prepares a build.

        Args:
            program: what to plan.
            mesh: the logical mesh.
            rules: factor rules, shared between builds.
            pins: layouts that inputs must have, by input position.
        """
        self._program = program
        self._mesh = mesh
        self._rules = rules
        self._pins = pins
        self._edges = EdgeTable(mesh)
        self._strategies: dict[object, tuple[Strategy, ...]] = {}
        self._costs: dict[object, np.ndarray] = {}
        self._layouts: dict[tuple[int, ...], Layouts] = {}
        self._variables: list[Variable] = []
        self._variable_costs: list[np.ndarray] = []
        self._problem_edges: list[Edge] = []
        self._reads: list[Read] = []
        self._definitions: dict[Value, Definition | None] = {}
        self._lifetimes = Lifetimes()

    def build(self, budget_bytes: float | None) -> Model:
        """Builds the model.

        Args:
            budget_bytes: memory of one device, or None for no limit.
        """
        graph = self._program.graph
        inputs = [self._input(i, value) for i, value in enumerate(graph.inputs)]
        for value in graph.constants:
            self._layout_variable(f"constant {value}", value, 1.0)
        self._walk(graph, 1.0)
        for position in range(len(graph.outputs)):
            self._output(position, inputs)
        return self._finish(inputs, budget_bytes)

    # Inputs and outputs.

    def _input(self, position: int, value: Value) -> int:
        pinned = self._pins.get(position)
        definition = self._layout_variable(
            value.path or str(value), value, 1.0, (pinned,) if pinned else None
        )
        held_s = (
            self._local_bytes(value.type, definition.layouts) / self._mesh.cluster.hardware.memory_bandwidth
        )
        self._variable_costs[definition.variable] = _TIE_BREAK * held_s
        return definition.variable

    def _output(self, position: int, inputs: Sequence[int]) -> None:
        operand = self._program.graph.outputs[position]
        source = self._definition(operand)
        if source is None:
            return
        carried = self._program.carried[position]
        if carried is None:
            name = f"result {self._program.out_paths[position]}"
            reader = self._add(Variable(name, self._plain(operand.type), 1.0), None)
        else:
            reader = inputs[carried]
        site = Site(-1, 0, position)
        self._read(site, source, reader, self._results(reader), operand, 1.0, None)
        self._lifetimes.keep_to_end(source)

    # Graphs and nodes.

    def _walk(self, graph: Graph, weight: float) -> None:
        materialised = materialised_values(graph)
        for node in graph.nodes:
            handler = _REGION_HANDLERS.get(node.op) if node.regions else None
            if handler is not None:
                handler(self, node, weight)
            else:
                self._operation(node, weight, materialised)

    def _operation(self, node: Node, weight: float, materialised: frozenset[Value]) -> None:
        moves = Traffic(
            tuple(isinstance(o, Value) and o in materialised for o in node.operands),
            tuple(r in materialised for r in node.results),
        )
        strategies, costs = self._strategies_of(node, moves)
        self._lifetimes.tick(f"{node.op} at {node.source}")
        variable = self._add(
            Variable(f"{node.op} at {node.source}", strategies, weight, node), costs * weight
        )
        for position, operand in enumerate(node.operands):
            targets = self._edges.intern([s.operands[position] for s in strategies])
            self._read(
                Site(node.index, -1, position),
                self._definition(operand),
                variable,
                targets,
                operand,
                weight,
                node,
            )
        for port, result in enumerate(node.results):
            layouts = self._edges.intern([s.results[port] for s in strategies])
            definition = self._define(result, variable, port, layouts)
            if moves.results[port] or not is_fusible(node):
                self._lifetimes.start(definition, self._local_bytes(result.type, layouts))

    def _strategies_of(self, node: Node, moves: Traffic) -> tuple[tuple[Strategy, ...], np.ndarray]:
        key = rule_key(node)
        if key not in self._strategies:
            rule = self._rules.rule(node)
            self._strategies[key] = node_strategies(node, rule, self._mesh.shape)
        strategies = self._strategies[key]
        if (key, moves) not in self._costs:
            self._costs[key, moves] = strategy_costs(node, strategies, moves, self._mesh)
        return strategies, self._costs[key, moves]

    def _remat(self, node: Node, weight: float) -> None:
        (body,) = node.regions
        self._alias(body, node.operands)
        self._walk(body, weight)
        for result, output in zip(node.results, body.outputs, strict=True):
            self._definitions[result] = self._definition(output)

    def _scan(self, node: Node, weight: float) -> None:
        (body,) = node.regions
        consts, carries = node.params["num_consts"], node.params["num_carry"]
        trips = weight * max(node.params["length"], 1)
        self._lifetimes.tick(f"scan at {node.source}")
        for position, (operand, value) in enumerate(zip(node.operands, body.inputs, strict=True)):
            stacked = position >= consts + carries
            self._enter(node, position, operand, value, weight, trips, stacked)
        stacks = [self._stack(value, trips) for value in node.results[carries:]]
        self._constants(body, trips)
        self._walk(body, trips)
        self._close_carries(node, 0, body.inputs[consts : consts + carries], body.outputs[:carries], trips)
        for position, (stack, output) in enumerate(zip(stacks, body.outputs[carries:], strict=True), carries):
            self._leave(Site(node.index, 0, position), node, output, stack, trips)
        for result, value in zip(node.results, body.inputs[consts : consts + carries], strict=False):
            self._definitions[result] = self._definitions[value]
        self._hold(node.operands, body.inputs)

    def _while(self, node: Node, weight: float) -> None:
        condition, body = node.regions
        n_cond, n_body = node.params["cond_nconsts"], node.params["body_nconsts"]
        trips = weight * _WHILE_TRIPS
        self._lifetimes.tick(f"while at {node.source}")
        carries = body.inputs[n_body:]
        entered = (*condition.inputs[:n_cond], *body.inputs[:n_body], *carries)
        for position, (operand, value) in enumerate(zip(node.operands, entered, strict=True)):
            self._enter(node, position, operand, value, weight, trips, stacked=False)
        for value, carry in zip(condition.inputs[n_cond:], carries, strict=True):
            self._definitions[value] = self._definitions[carry]
        for region in (condition, body):
            self._constants(region, trips)
            self._walk(region, trips)
        self._close_carries(node, 1, carries, body.outputs, trips)
        for result, value in zip(node.results, carries, strict=True):
            self._definitions[result] = self._definitions[value]
        self._hold(node.operands, entered)

    def _cond(self, node: Node, weight: float) -> None:
        share = weight / len(node.regions)
        self._lifetimes.tick(f"cond at {node.source}")
        readers = [self._layout_variable(f"cond result at {node.source}", r, weight) for r in node.results]
        for index, branch in enumerate(node.regions):
            self._alias(branch, node.operands[1:])
            self._constants(branch, share)
            self._walk(branch, share)
            for position, (reader, output) in enumerate(zip(readers, branch.outputs, strict=True)):
                self._leave(Site(node.index, index, position), node, output, reader, share)
        self._hold(node.operands, ())

    # Region boundaries.

    def _alias(self, region: Graph, operands: Sequence[Operand]) -> None:
        for value, operand in zip(region.inputs, operands, strict=True):
            self._definitions[value] = self._definition(operand)

    def _constants(self, region: Graph, weight: float) -> None:
        for value in region.constants:
            self._layout_variable(f"constant {value}", value, weight)

    def _enter(
        self,
        node: Node,
        position: int,
        operand: Operand,
        value: Value,
        weight: float,
        trips: float,
        stacked: bool,
    ) -> None:
        """A loop operand becomes a body input; a scanned one is sliced along an unsplit dim."""
        inside = self._layout_variable(f"{node.op} input at {node.source}", value, trips)
        targets = inside.layouts
        if stacked:
            targets = self._edges.intern([layout.with_leading_dim() for layout in targets])
        site = Site(node.index, -1, position)
        self._read(site, self._definition(operand), inside.variable, targets, operand, weight, node)

    def _stack(self, value: Value, trips: float) -> Definition:
        """The stacked results of a scan: the layout of one slice, with an unsplit leading dim."""
        inner = TensorType(value.type.shape[1:], value.type.dtype, value.type.itemsize_bytes)
        strategies = self._plain(inner)
        variable = self._add(Variable(f"stacked {value}", strategies, trips, value=value), None)
        layouts = self._edges.intern([s.results[0].with_leading_dim() for s in strategies])
        definition = self._define(value, variable, 0, layouts)
        self._lifetimes.start(definition, self._local_bytes(value.type, layouts))
        return definition

    def _close_carries(
        self, node: Node, region: int, carries: Sequence[Value], outputs: Sequence[Operand], trips: float
    ) -> None:
        for position, (carry, output) in enumerate(zip(carries, outputs, strict=True)):
            carried = self._definitions[carry]
            if carried is not None:
                self._leave(Site(node.index, region, position), node, output, carried, trips)

    def _leave(self, site: Site, node: Node, output: Operand, reader: Definition, weight: float) -> None:
        targets = self._results(reader.variable)
        self._read(site, self._definition(output), reader.variable, targets, output, weight, node)

    def _hold(self, operands: Sequence[Operand], inside: Sequence[Value]) -> None:
        """What a loop reads stays alive until its last trip."""
        for operand in (*operands, *inside):
            definition = self._definition(operand)
            if definition is not None:
                self._lifetimes.touch(definition)

    # Variables, definitions, reads.

    def _layout_variable(
        self, name: str, value: Value, weight: float, only: Layouts | None = None
    ) -> Definition:
        strategies = tuple(Strategy((), (layout,)) for layout in only) if only else self._plain(value.type)
        variable = self._add(Variable(name, strategies, weight, value=value), None)
        layouts = self._edges.intern([s.results[0] for s in strategies])
        definition = self._define(value, variable, 0, layouts)
        self._lifetimes.start(definition, self._local_bytes(value.type, layouts))
        return definition

    def _plain(self, type_: TensorType) -> tuple[Strategy, ...]:
        key = ("plain", type_.shape)
        if key not in self._strategies:
            layouts = enumerate_layouts(type_.shape, self._mesh.shape) or (replicated(type_.rank),)
            self._strategies[key] = tuple(Strategy((), (layout,)) for layout in layouts)
        return self._strategies[key]

    def _add(self, variable: Variable, costs: np.ndarray | None) -> int:
        self._variables.append(variable)
        self._variable_costs.append(np.zeros(len(variable.strategies)) if costs is None else costs)
        return len(self._variables) - 1

    def _define(self, value: Value, variable: int, port: int, layouts: Layouts) -> Definition:
        definition = Definition(variable, port, layouts)
        self._definitions[value] = definition
        return definition

    def _definition(self, operand: Operand) -> Definition | None:
        return self._definitions[operand] if isinstance(operand, Value) else None

    def _results(self, variable: int) -> Layouts:
        return self._edges.intern([s.results[0] for s in self._variables[variable].strategies])

    def _read(
        self,
        site: Site,
        source: Definition | None,
        reader: int,
        targets: Layouts,
        operand: Operand,
        weight: float,
        node: Node | None,
    ) -> None:
        if source is None or not isinstance(operand, Value):
            return
        self._lifetimes.touch(source)
        cost = self._edges.cost(operand.type, source.layouts, targets, weight)
        edge = None
        if source.variable == reader:
            self._variable_costs[reader] = self._variable_costs[reader] + np.diag(cost)
        else:
            edge = len(self._problem_edges)
            self._problem_edges.append(Edge(source.variable, reader, cost))
            self._lifetimes.copy(edge, self._edges.copies(operand.type, source.layouts, targets))
        what = operand.path or str(operand)
        self._reads.append(Read(site, source, reader, targets, operand.type, weight, what, node, edge))

    def _local_bytes(self, type_: TensorType, layouts: Layouts) -> np.ndarray:
        return np.array([layout.local_bytes(type_, self._mesh.shape) for layout in layouts])

    def _finish(self, inputs: Sequence[int], budget_bytes: float | None) -> Model:
        donated = {v for v, given in zip(inputs, self._program.donated, strict=True) if given}
        for variable in inputs:
            if variable not in donated:
                self._lifetimes.keep_variable_to_end(variable)
        problem = Problem(
            names=tuple(v.name for v in self._variables),
            costs=tuple(self._variable_costs),
            edges=tuple(self._problem_edges),
            usages=self._lifetimes.usages(),
            edge_usages=self._lifetimes.edge_usages(),
            num_points=self._lifetimes.num_points,
            budget_bytes=budget_bytes,
        )
        definitions = {value: d for value, d in self._definitions.items() if d is not None}
        return Model(
            problem,
            tuple(self._variables),
            tuple(self._reads),
            definitions,
            tuple(inputs),
            self._lifetimes.names,
        )


_REGION_HANDLERS = {
    "remat2": ModelBuilder._remat,
    "checkpoint": ModelBuilder._remat,
    "scan": ModelBuilder._scan,
    "while": ModelBuilder._while,
    "cond": ModelBuilder._cond,
}
