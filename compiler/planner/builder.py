"""Builds the planner's model from a program.

Every operation becomes a variable over its strategies; inputs, loop carries, loop slices and results become
variables over plain layouts. Every read becomes an edge that costs the reshard from the layout at hand to the
layout wanted. Results that replace an input (``Program.carried``) are read in that input's layout, so state
leaves a step as it came. What loops and branches add is in ``region_models``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ...cost_models.mesh import LogicalMesh
from ..analysis.fusion import FusedOperation, fused_operations
from ..analysis.op_kind import writes_in_place
from ..analysis.recomputation import recomputed_values
from ..ir import Graph, Node, Operand, Program, Value
from ..rules import RuleBook
from .edges import EdgeTable, Layouts
from .layout import Layout
from .lifetimes import Lifetimes
from .menu import Menu, MenuBook, Narrowing
from .model import Definition, Model, Read, Site, Variable
from .region_models import REGION_MODELS
from .solver.problem import Edge, Problem

# Of two layouts that cost the same, the one that keeps fewer bytes of an argument on a device wins: this
# share of the time to read them once. Small enough never to outweigh a collective or a kernel.
_TIE_BREAK = 1e-3


class ModelBuilder:
    """Walks a program once in execution order; ``build`` returns the model.

    Attributes:
        lifetimes: when each value is alive.
        menus: what can be chosen.
    """

    def __init__(
        self,
        program: Program,
        mesh: LogicalMesh,
        rules: RuleBook,
        pins: Mapping[int, Layout],
        narrowing: Narrowing | None = None,
    ) -> None:
        """Prepares a build.

        Args:
            program: what to plan.
            mesh: the logical mesh.
            rules: factor rules, shared between builds.
            pins: layouts that inputs must have, by input position.
            narrowing: leaves strategies out of the menus, if any are to be.
        """
        self._program = program
        self._mesh = mesh
        self._pins = pins
        self._edges = EdgeTable(mesh)
        self.menus = MenuBook(mesh, rules, self._edges, narrowing)
        self.lifetimes = Lifetimes()
        self._variables: list[Variable] = []
        self._variable_menus: list[Menu] = []
        self._costs: list[np.ndarray] = []
        self._problem_edges: list[Edge] = []
        self._reads: list[Read] = []
        self._definitions: dict[Value, Definition] = {}
        self._operations: dict[FusedOperation, int] = {}
        self._recomputed: dict[Value, tuple[Value, ...]] = {}
        self._num_readers: Counter[Value] = Counter()

    def build(self, budget_bytes: float | None) -> Model:
        """Builds the model.

        Args:
            budget_bytes: memory of one device, or None for no limit.
        """
        graph = self._program.graph
        inputs = [self._input(position, value) for position, value in enumerate(graph.inputs)]
        self.constants(graph, 1.0)
        self.walk(graph, 1.0)
        for position in range(len(graph.outputs)):
            self._output(position, inputs)
        for variable, donated in zip(inputs, self._program.donated, strict=True):
            if not donated:
                self.lifetimes.keep_to_end(variable, 0)
        return self._model(inputs, budget_bytes)

    def walk(self, graph: Graph, weight: float) -> None:
        """Adds the nodes of a graph whose inputs and constants are defined.

        Args:
            graph: the graph.
            weight: how often it runs per step.
        """
        fused = fused_operations(graph)
        self._num_readers.update(_num_readers(graph, fused))
        self._recomputed.update(recomputed_values(graph, fused, self._mesh.cluster.hardware.kind))
        for node in graph.nodes:
            if node.regions and node.op in REGION_MODELS:
                REGION_MODELS[node.op](self, node, weight)
            else:
                self._node(node, fused[node], weight)

    def constants(self, graph: Graph, weight: float) -> None:
        """Adds a graph's closed-over constants as values of free layout."""
        for value in graph.constants:
            made = self.add_value(
                f"constant {value}", value, weight, self.menus.plain(value.type, padded=True)
            )
            self.lifetimes.keep_to_end(made.variable, 0)

    def add_value(self, name: str, value: Value, weight: float, menu: Menu, alive: bool = True) -> Definition:
        """Adds a variable that decides the layout of one value.

        Args:
            name: for messages.
            value: the value.
            weight: how often it is made per step.
            menu: its layouts.
            alive: whether it takes memory of its own, from now on.
        """
        variable = self._add(Variable(name, menu.strategies, weight, value=value), menu)
        return self._define(value, variable, 0, menu, alive)

    def alias(self, value: Value, operand: Operand) -> None:
        """Gives a value the definition of another; a literal has none."""
        definition = self.definition(operand)
        if definition is not None:
            self._definitions[value] = definition

    def definition(self, operand: Operand) -> Definition | None:
        """Where an operand's layout is decided; None for literals and what stands for them."""
        return self._definitions.get(operand) if isinstance(operand, Value) else None

    def touch(self, operand: Operand) -> None:
        """An operand is read now: it, or what it is made again from, is alive until here."""
        if isinstance(operand, Value):
            for value in self._recomputed.get(operand, (operand,)):
                definition = self._definitions.get(value)
                if definition is not None:
                    self.lifetimes.touch(definition)

    def read(
        self,
        sites: tuple[Site, ...],
        reader: int,
        targets: Layouts,
        operand: Operand,
        weight: float,
        node: Node | None,
        copied: Layouts | None = None,
    ) -> int | None:
        """Adds a read of a value.

        Args:
            sites: the places where it is read.
            reader: the variable that decides the layout wanted.
            targets: the layout wanted under each of its strategies, interned.
            operand: what is read; a literal costs nothing.
            weight: how often per step.
            node: the reading node, for its source line.
            copied: layouts in which the reader has the value already, for another of its operands.

        Returns:
            The problem's edge, if the read has one.
        """
        source = self.definition(operand)
        if source is None or not isinstance(operand, Value):
            return None
        self.touch(operand)
        cost = self._edges.cost(operand.type, source.layouts, targets, weight)
        copies = self._edges.copies(operand.type, source.layouts, targets)
        if copied is not None:
            served = np.array([a == b for a, b in zip(targets, copied, strict=True)])
            cost, copies = np.where(served, 0.0, cost), np.where(served, 0.0, copies)
        edge = None
        if source.variable == reader:
            self._costs[reader] = self._costs[reader] + np.diag(cost)
        else:
            edge = len(self._problem_edges)
            self._problem_edges.append(Edge(source.variable, reader, cost))
            self.lifetimes.copy(edge, copies)
        what = operand.path or str(operand)
        self._reads.append(
            Read(sites, source, reader, targets, operand.type, weight, what, node, edge, copied)
        )
        return edge

    def _input(self, position: int, value: Value) -> int:
        pinned = self._pins.get(position)
        menu = self.menus.only(value.type, pinned) if pinned else self.menus.argument(value)
        variable = self.add_value(value.path or str(value), value, 1.0, menu).variable
        held_s = menu.result_bytes[0] / self._mesh.cluster.hardware.memory_bandwidth
        self._costs[variable] = _TIE_BREAK * held_s
        return variable

    def _output(self, position: int, inputs: Sequence[int]) -> None:
        operand = self._program.graph.outputs[position]
        source = self.definition(operand)
        if source is None:
            return
        carried = self._program.carried[position]
        if carried is None:
            menu = self.menus.plain(operand.type)
            name = f"result {self._program.out_paths[position]}"
            reader = self._add(Variable(name, menu.strategies, 1.0), menu)
        else:
            reader = inputs[carried]
        targets = self._variable_menus[reader].results[0]
        self.read((Site(-1, 0, position),), reader, targets, operand, 1.0, None)
        self.lifetimes.keep_to_end(source.variable, source.port)

    def _node(self, node: Node, operation: FusedOperation, weight: float) -> None:
        """A fused operation gets its variable at its first node; each node adds what it reads and makes."""
        self.lifetimes.tick(f"{node.op} at {node.source}")
        if node is operation.nodes[0]:
            shared = any(self._num_readers[result] > 1 for result in operation.results)
            menu, costs = self.menus.operation(operation, shared)
            name = f"{operation.anchor.op} at {operation.anchor.source}"
            variable = Variable(name, menu.strategies, weight, operation.anchor)
            self._operations[operation] = self._add(variable, menu, costs * weight)
        variable = self._operations[operation]
        menu = self._variable_menus[variable]
        place = operation.nodes.index(node) if len(operation.nodes) > 1 else 0
        self._read_operands(operation, place, variable, menu, weight)
        first = sum(len(n.results) for n in operation.nodes[:place])
        for port, result in enumerate(node.results, first):
            kept = result in operation.materialised and result not in self._recomputed
            self._define(result, variable, port, menu, alive=kept)
            if kept and writes_in_place(node):
                self._overwrite_one(node, result)

    def _read_operands(
        self, operation: FusedOperation, place: int, variable: int, menu: Menu, weight: float
    ) -> None:
        """Each outside value is read once, at the first node that wants it, for all nodes that do."""
        earlier = {wire for wires in operation.wires[:place] for wire in wires}
        copied: dict[Value, Layouts] = {}
        for wire in dict.fromkeys(w for w in operation.wires[place] if w is not None):
            value = operation.operands[wire]
            if wire in earlier:
                self.touch(value)
                continue
            sites, wanted = _sites(operation, wire), menu.operands[wire]
            node = operation.nodes[place]
            self.read(sites, variable, wanted, value, weight, node, copied.get(value))
            copied.setdefault(value, wanted)

    def _overwrite_one(self, node: Node, result: Value) -> None:
        """A loop, and an update in place, writes its result over an operand that is read there last."""
        for operand in node.operands:
            definition = self.definition(operand)
            same_size = operand.type.bytes == result.type.bytes
            if definition is not None and same_size and self.lifetimes.overwrite(definition):
                return

    def _add(self, variable: Variable, menu: Menu, costs: np.ndarray | None = None) -> int:
        self._variables.append(variable)
        self._variable_menus.append(menu)
        self._costs.append(np.zeros(len(menu.strategies)) if costs is None else costs)
        return len(self._variables) - 1

    def _define(self, value: Value, variable: int, port: int, menu: Menu, alive: bool = True) -> Definition:
        definition = self._definitions[value] = Definition(variable, port, menu.results[port])
        if alive:
            self.lifetimes.start(definition, menu.result_bytes[port])
        return definition

    def _model(self, inputs: Sequence[int], budget_bytes: float | None) -> Model:
        problem = Problem(
            names=tuple(v.name for v in self._variables),
            costs=tuple(self._costs),
            edges=tuple(self._problem_edges),
            usages=self.lifetimes.usages(),
            edge_usages=self.lifetimes.edge_usages(),
            num_points=self.lifetimes.num_points,
            budget_bytes=budget_bytes,
        )
        return Model(
            problem,
            tuple(self._variables),
            tuple(self._reads),
            self._definitions,
            tuple(inputs),
            self.lifetimes.names,
        )


def _num_readers(graph: Graph, fused: Mapping[Node, FusedOperation]) -> Counter[Value]:
    """How many operations, and results of the graph, read each value."""
    readers = Counter(o for o in graph.outputs if isinstance(o, Value))
    for operation in set(fused.values()):
        readers.update(set(operation.operands))
    return readers


def _sites(operation: FusedOperation, wire: int) -> tuple[Site, ...]:
    """Every operand position at which a fused operation reads one outside value."""
    return tuple(
        Site(node.index, -1, position)
        for node, wires in zip(operation.nodes, operation.wires, strict=True)
        for position, found in enumerate(wires)
        if found == wire
    )
