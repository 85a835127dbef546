"""A case: a program, its arguments, a mesh and pinned layouts of some inputs."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from jax.sharding import PartitionSpec

from .catalogue import draw_op
from .program import KEY, Program, Type, Var
from .scope import DIMS, MAX_INPUTS, Names, Scope

# None lets the planner search; rare, because it tries several.
MESHES: tuple[tuple[int, ...] | None, ...] = (
    (8,), (8,), (2, 4), (2, 4), (4, 2), (2, 2, 2), (3,), (6,), (2, 3), None,
)  # fmt: skip
AXES = "abc"
MAX_OPS = 12
MAX_OUTPUTS = 4

Spec = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Case:
    """One program with what it is planned for.

    Attributes:
        program: the program.
        mesh: sizes of mesh axes ``a``, ``b``, ``c``; None for a search over all meshes of eight devices.
        pins: layouts of inputs by name: for each dim the axes that split it, major first.
        seed: of the arguments.
    """

    program: Program
    mesh: tuple[int, ...] | None
    pins: tuple[tuple[str, Spec], ...]
    seed: int

    @property
    def num_devices(self) -> int:
        """Devices of the mesh."""
        return math.prod(self.mesh or (8,))

    @property
    def mesh_axes(self) -> dict[str, int] | None:
        """Sizes by axis name, as the planner takes them."""
        return None if self.mesh is None else dict(zip(AXES, self.mesh, strict=False))

    @property
    def partition_specs(self) -> dict[str, PartitionSpec]:
        """The pins, as the planner takes them."""
        return {name: PartitionSpec(*(dim or None for dim in spec)) for name, spec in self.pins}

    def arguments(self) -> list[Any]:
        """Arrays for the inputs: multiples of a quarter, small integers, keys."""
        rng = np.random.default_rng(self.seed)
        return [_argument(rng, x.type) for x in self.program.inputs]

    def __str__(self) -> str:
        """The case as Python text that runs: the program, and how it was planned."""
        shapes = ", ".join(f"{x.type}" for x in self.program.inputs)
        pins = ", ".join(f"{name!r}: {spec}" for name, spec in self.partition_specs.items())
        return (
            f"{self.program}\n# arguments: {shapes}, seed {self.seed}\n"
            f"# mesh={self.mesh_axes}, pins={{{pins}}}\n"
        )


def draw_case(rng: random.Random) -> Case:
    """Draws a case; equal states of the generator give equal cases.

    Args:
        rng: the only source of choices.
    """
    program = draw_program(rng)
    mesh = rng.choice(MESHES)
    return Case(program, mesh, _pins(rng, program, mesh), rng.randrange(1000))


def numbered_case(seed: int, index: int) -> Case:
    """The case with a number in the sequence of a seed."""
    return draw_case(random.Random(f"{seed}/{index}"))


def cases() -> st.SearchStrategy[Case]:
    """Cases as a hypothesis strategy."""
    return st.builds(draw_case, st.randoms(use_true_random=False))


def draw_program(rng: random.Random) -> Program:
    """Draws a program of up to a dozen operations, not counting those in nested functions."""
    names = Names()
    scope = Scope(rng, names, draw_op, is_gradient=rng.random() < 0.35)
    for type_ in _input_types(rng):
        scope.new_input(type_)
    wanted = rng.randint(1, MAX_OPS)
    while len(scope.ops) < wanted:
        draw_op(scope)
    outputs = _gradient_outputs(scope) if scope.is_gradient else _outputs(scope)
    program = Program(tuple(names.inputs), tuple(scope.ops), outputs).without_dead_code()
    has_real_input = any(x.type.dtype == "float32" for x in program.inputs)
    return replace(program, is_gradient=scope.is_gradient and has_real_input)


def _input_types(rng: random.Random) -> list[Type]:
    ranks = [1, 2, 2, 2, 3, 3, 4]
    types = [Type(_shape(rng, rng.choice(ranks)), "float32")]
    for _ in range(rng.randint(0, MAX_INPUTS - 1)):
        kind = rng.choice(("float32", "float32", "int32", KEY, KEY, "bool"))
        types.append(Type(() if kind == KEY else _shape(rng, rng.choice((0, *ranks))), kind))
    return types


def _shape(rng: random.Random, rank: int) -> tuple[int, ...]:
    sizes = DIMS if rank < 3 else DIMS[:5]
    return tuple(rng.choice(sizes) for _ in range(rank))


def _outputs(scope: Scope) -> tuple[str, ...]:
    """Results that nothing reads, the last among them, and sometimes one that something reads."""
    unread = _unread(scope, [r for op in scope.ops for r in op.results])
    read = [r.name for op in scope.ops for r in op.results if r.name not in unread]
    return (*unread, *scope.rng.sample(read, min(len(read), scope.rng.randint(0, 1))))


def _gradient_outputs(scope: Scope) -> tuple[str, ...]:
    """Real results that nothing reads; the first input where there is none."""
    real = [r for op in scope.ops for r in op.results if r.type.dtype == "float32"]
    return _unread(scope, real) or (scope.names.inputs[0].name,)


def _unread(scope: Scope, results: list[Var]) -> tuple[str, ...]:
    read = {name for op in scope.ops for name in op.reads()}
    return tuple(r.name for r in results if r.name not in read)[-MAX_OUTPUTS:]


def _pins(rng: random.Random, program: Program, mesh: tuple[int, ...] | None) -> tuple[tuple[str, Spec], ...]:
    if mesh is None:
        return ()
    sizes = dict(zip(AXES, mesh, strict=False))
    pins = []
    for x in program.inputs:
        if x.type.dtype != KEY and rng.random() < 0.6:
            pins.append((x.name, _spec(rng, x.type.shape, sizes)))
    return tuple(pins)


def _spec(rng: random.Random, shape: tuple[int, ...], sizes: dict[str, int]) -> Spec:
    """Some of the axes on dims that they divide."""
    dims: list[tuple[str, ...]] = [()] * len(shape)
    for axis in rng.sample(sorted(sizes), len(sizes)):
        fitting = [
            d
            for d, size in enumerate(shape)
            if size % (sizes[axis] * math.prod(sizes[a] for a in dims[d])) == 0
        ]
        if fitting and rng.random() < 0.7:
            d = rng.choice(fitting)
            dims[d] = (*dims[d], axis)
    return tuple(dims)


def _argument(rng: np.random.Generator, type_: Type) -> Any:
    if type_.dtype == KEY:
        return jax.random.key(int(rng.integers(1000)))
    if type_.dtype == "bool":
        return jnp.asarray(rng.integers(0, 2, type_.shape) == 1)
    if type_.dtype == "complex64":
        return jnp.asarray(rng.normal(size=(*type_.shape, 2)) @ np.array([1, 1j]), jnp.complex64)
    values = rng.integers(-12, 13, type_.shape)
    if type_.is_float:
        return jnp.asarray(values / 4, type_.dtype)
    return jnp.asarray(values if type_.dtype == "int32" else np.abs(values), type_.dtype)
