"""A planned program, compiled: calls go to JAX's fast path, which refuses other signatures by itself."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from ..compiler.ir import Program
from ..compiler.jax_compat import no_explicit_mesh, trace_context
from ..compiler.lowering import SpmdProgram, device_mesh
from ..compiler.plan import Plan
from .signature import Call, any_deleted, is_weak

# Without the Python frames of ``jax.tree.leaves``: this is read at every call.
_flatten = jax.tree_util.default_registry.flatten
_SMALL = re.compile(r"u?int[24]$|float4")


class OtherSignature(Exception):
    """The arguments are not of the shapes, types or structure that the program was compiled for."""


class Executable:
    """One plan, compiled for one signature.

    Attributes:
        boundary: shardings of arguments and results, as ``jax.jit`` takes them.
        donates: whether any argument is donated.
    """

    def __init__(self, program: Program, plan: Plan, call: Call) -> None:
        """Prepares the jitted function; nothing is compiled yet.

        Args:
            program: the traced program.
            plan: its plan.
            call: a call of the signature.

        Raises:
            PlanMismatchError: where this process has too few devices.
        """
        spmd = SpmdProgram(program, plan, device_mesh(plan.mesh))
        self._call = call
        self._in_shardings = jax.tree.unflatten(call.in_tree, spmd.argument_shardings)
        self.boundary = {
            "in_shardings": self._in_shardings,
            "out_shardings": jax.tree.unflatten(program.out_tree, spmd.result_shardings),
        }
        self._donated = _donated_positions(program, call)
        self.donates = bool(self._donated)
        self._context = call.context
        # Compiled ahead of time, JAX does not run on elements of less than a byte; jit does, but would also
        # trace the program again for other arguments.
        self._is_small = any(_SMALL.match(str(a.dtype)) for a in call.avals)
        self._is_direct = not (self._is_small or call.names or call.static_positions or call.static_keywords)
        # Only of scalars is the weak type in doubt; arrays are weak where they were to begin with.
        self._weak = [(i, a.weak_type) for i, a in enumerate(call.avals) if a.weak_type or a.shape == ()]
        self._reads_leaves = self.donates or bool(self._weak)

        def planned(*dynamic: Any) -> Any:
            return jax.tree.unflatten(program.out_tree, spmd(jax.tree.leaves(dynamic)))

        planned.__name__ = program.name
        self._jitted = jax.jit(planned, donate_argnums=self._donated, **self.boundary)

    def takes(self, args: Sequence[Any]) -> bool:
        """Whether a call by position alone, outside of any trace, can go straight to ``call``.

        XLA's executable checks shapes, types and structure, but would take a weakly typed number for a strong
        one, which promotes otherwise, and does not know under which of JAX's settings it was traced.
        """
        if not self._is_direct or self._context != trace_context():
            return False
        if not self._reads_leaves:
            return True
        leaves, _ = _flatten(args)
        if len(leaves) != len(self._call.avals):
            return False
        # Given to XLA's executable, an array that was donated before ends the process.
        if any_deleted(leaves):
            return False
        return all([is_weak(leaves[i]) == weak for i, weak in self._weak])  # noqa: C419 -- the faster

    @functools.cached_property
    def lowered(self) -> jax.stages.Lowered:
        """The program lowered to StableHLO."""
        with no_explicit_mesh():
            return self._jitted.lower(*jax.tree.unflatten(self._call.in_tree, self._call.avals))

    @functools.cached_property
    def compiled(self) -> jax.stages.Compiled:
        """The program compiled by XLA.

        Compiled ahead of time, because ``jit`` would compile once more for arguments that are not on the mesh
        yet (their abstract values differ in the mesh they carry).
        """
        return self.lowered.compile()

    def call(self, dynamic: Sequence[Any]) -> Any:
        """Runs the program; arguments that lie elsewhere are moved first.

        Raises:
            OtherSignature: where shapes, types or structure differ; nothing has run then.
        """
        try:
            return self.compiled(*dynamic)
        except TypeError as error:
            raise OtherSignature from error
        except ValueError as error:
            if "sharding" not in str(error):
                raise
        return self.call_placed(dynamic)

    def call_placed(self, dynamic: Sequence[Any]) -> Any:
        """Moves arguments to where the plan wants them, then runs. Donated ones are gone after it as well."""
        run = self._jitted if self._is_small else self.compiled
        result = run(*jax.device_put(tuple(dynamic), self._in_shardings))
        # Not before: on its own device a moved array may share the original's memory.
        for original in self._given_away(dynamic):
            original.delete()
        return result

    def _given_away(self, dynamic: Sequence[Any]) -> Iterator[jax.Array]:
        donated = jax.tree.leaves([dynamic[position] for position in self._donated])
        return (x for x in donated if isinstance(x, jax.Array) and not x.is_deleted())


def _donated_positions(program: Program, call: Call) -> tuple[int, ...]:
    """Arguments all of whose leaves are donated, by position among the traced ones."""
    positions, first = [], 0
    for position, argument in enumerate(call.dynamic):
        count = len(jax.tree.leaves(argument))
        if count and all(program.donated[first : first + count]):
            positions.append(position)
        first += count
    return tuple(positions)
