"""The plan's data: an immutable, versioned record that is also its file format.

Field types are what JSON can say. Mesh axes are named everywhere; a *spec* is one list of axis names for each
dim.
"""

from __future__ import annotations

import hashlib
import os

import msgspec

FORMAT = "meshwright-plan"
# Version 2: how many equal values are alive at the peak, and how many in all. Version 3: the template.
# Older ones are read as well.
VERSION, OLDEST_VERSION = 3, 1

Spec = tuple[tuple[str, ...], ...]


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all records in a plan file."""


class ValueLayout(_Record, frozen=True):
    """A layout: the mesh axes that split each dim, and those along which the value is a pending sum."""

    spec: Spec
    partial: tuple[str, ...] = ()


class ArraySpec(_Record, frozen=True):
    """An argument or result of the program.

    Attributes:
        path: pytree path.
        shape: dim sizes.
        dtype: element type.
        spec: its sharding.
        donated: whether the caller gives it away (arguments only).
    """

    path: str
    shape: tuple[int, ...]
    dtype: str
    spec: Spec
    donated: bool = False


class MeshSpec(_Record, frozen=True):
    """The logical mesh: named axes over all devices, row-major."""

    shape: tuple[int, ...]
    axis_names: tuple[str, ...]


class Reshard(_Record, frozen=True):
    """A value read in another layout than it is kept in.

    Attributes:
        node: index of the reading operation, -1 for a result of the program.
        region: -1 for an operand, else the region whose output it is.
        position: operand or output position.
        layout: index into ``Plan.layouts``.
    """

    node: int
    region: int
    position: int
    layout: int


class CollectiveUse(_Record, frozen=True):
    """Communication of one kind that one source line causes.

    Attributes:
        kind: ``all-gather``, ``reduce-scatter``, ``all-reduce``, ``all-to-all`` or ``collective-permute``.
        axes: mesh axes of its groups.
        bytes: bytes of the array over one group, for each time.
        count: how many times a step does it.
        seconds: predicted seconds of all of them.
        value: what is moved: a path, or ``%index``.
        op: the operation that needs it.
        source: the user's line, ``file:line``.
    """

    kind: str
    axes: tuple[str, ...]
    bytes: int
    count: int
    seconds: float
    value: str
    op: str
    source: str


class CostTerms(_Record, frozen=True):
    """Where the predicted step time goes, in seconds."""

    compute_s: float
    communication_s: float


class LiveTensor(_Record, frozen=True):
    """Values alive at the peak that have one origin and one size.

    Attributes:
        name: a path, or operation and source line.
        bytes: of each, on one device.
        count: how many there are.
    """

    name: str
    bytes: int
    count: int = 1


class MemoryProfile(_Record, frozen=True):
    """Predicted bytes on one device over the step.

    Attributes:
        peak_bytes: the most at any live point.
        peak_at: what runs there.
        largest: the values alive there that take the most together.
        curve_bytes: the profile in execution order, the most of each of up to 256 equal stretches.
        state_bytes: arguments as they lie between steps.
        num_live: how many values are alive at the peak; 0 where that is unknown (version 1).
    """

    peak_bytes: int
    peak_at: str
    largest: tuple[LiveTensor, ...]
    curve_bytes: tuple[int, ...]
    state_bytes: int
    num_live: int = 0


class Stage(_Record, frozen=True):
    """A part of the program on a part of the devices; a plan without a pipeline has one.

    Attributes:
        name: the stage's name.
        num_nodes: operations in it.
        devices: first device and one past the last.
    """

    name: str
    num_nodes: int
    devices: tuple[int, int]


class Certificate(_Record, frozen=True):
    """What the solver proved.

    Attributes:
        objective_s: cost of the plan under the model.
        bound_s: no plan on this mesh costs less under the model.
        gap: ``(objective - bound) / objective``.
        effort: the search level, 0 to 3.
        num_variables: decisions.
        num_edges: reads with a price.
        meshes: logical mesh shapes tried, with the objective of the best plan met on each (None where nothing
            fits). A mesh is searched no further once it cannot have the best plan of all.
        is_cut_short: whether the time limit ended the search; then the plan depends on the machine's speed,
            and meshes may be missing from ``meshes``.
        template: the expert template that the plan had to keep to, or whose plan is the cheapest found; empty
            where the search found a cheaper one by itself. ``bound_s`` is that of the template where it had
            to.
    """

    objective_s: float
    bound_s: float
    gap: float
    effort: int
    num_variables: int
    num_edges: int
    meshes: tuple[tuple[tuple[int, ...], float | None], ...]
    is_cut_short: bool = False
    template: str = ""


class Plan(_Record, frozen=True):
    """How one program runs on one mesh.

    Attributes:
        program: the function's name.
        fingerprint: of the program the plan is for.
        cluster: name of the cluster.
        num_devices: devices of the cluster.
        hardware_hash: hash of the hardware record the costs came from.
        budget_bytes: memory of one device that the plan had to fit.
        mesh: the logical mesh.
        arguments: arguments with their shardings, in flattened order.
        results: results with their shardings, in flattened order.
        layouts: table of distinct layouts.
        values: for each value of the program, an index into ``layouts``, or -1 where nothing is decided.
        reshards: reads in another layout than the value's own.
        collectives: predicted communication, most expensive first.
        costs: predicted time by kind.
        memory: predicted memory.
        stages: pipeline stages.
        schedule: name of the pipeline schedule; ``"none"`` for a single stage.
        certificate: what the solver proved.
        meshwright_version: version that made the plan.
    """

    program: str
    fingerprint: str
    cluster: str
    num_devices: int
    hardware_hash: str
    budget_bytes: int
    mesh: MeshSpec
    arguments: tuple[ArraySpec, ...]
    results: tuple[ArraySpec, ...]
    layouts: tuple[ValueLayout, ...]
    values: tuple[int, ...]
    reshards: tuple[Reshard, ...]
    collectives: tuple[CollectiveUse, ...]
    costs: CostTerms
    memory: MemoryProfile
    stages: tuple[Stage, ...]
    schedule: str
    certificate: Certificate
    meshwright_version: str

    @property
    def step_time_s(self) -> float:
        """Predicted seconds of one step."""
        return self.costs.compute_s + self.costs.communication_s

    @property
    def peak_memory_bytes(self) -> int:
        """Predicted peak bytes on one device."""
        return self.memory.peak_bytes

    @property
    def objective_s(self) -> float:
        """Cost of the plan under the model, in seconds."""
        return self.certificate.objective_s

    @property
    def bound_s(self) -> float:
        """No plan on this mesh costs less under the model, in seconds."""
        return self.certificate.bound_s

    @property
    def gap(self) -> float:
        """``(objective - bound) / objective``."""
        return self.certificate.gap

    @property
    def shardings(self) -> dict[str, Spec]:
        """Sharding of every argument by pytree path: for each dim, the axes that split it."""
        return {a.path: a.spec for a in self.arguments}

    @property
    def hash(self) -> str:
        """SHA-256 of what was decided and predicted: equal for equal plans, wherever the code lies."""
        decided = (self.fingerprint, self.hardware_hash, self.budget_bytes, self.mesh, self.arguments)
        chosen = (self.results, self.layouts, self.values, self.reshards, self.stages, self.schedule)
        predicted = (self.costs, self.memory.peak_bytes, self.memory.curve_bytes, self.certificate)
        return hashlib.sha256(msgspec.json.encode((decided, chosen, predicted))).hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan as JSON; an existing file is replaced whole or not at all."""
        from .io import save_plan

        save_plan(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Plan:
        """Reads a plan file.

        Raises:
            PlanFormatError: where the file is no plan, is cut short, was altered or is of another version.
        """
        from .io import load_plan

        return load_plan(path)

    def __str__(self) -> str:
        from ..display.text import format_plan

        return format_plan(self)
