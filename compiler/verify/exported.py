"""The planned program as portable StableHLO: lowered for a platform and a mesh that this process lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import AbstractMesh, AxisType

from ..errors import UnsupportedError
from ..ir import Program
from ..jax_compat import no_explicit_mesh
from ..lowering import SpmdProgram
from ..plan import Plan


def exported_program(
    program: Program, plan: Plan, avals: Sequence[jax.ShapeDtypeStruct], platform: str
) -> bytes:
    """Lowers a planned program for another platform; user lines, shardings and donation are in it.

    Args:
        program: the traced program.
        plan: its plan.
        avals: abstract arguments, flat, weak types included.
        platform: JAX's name of the platform: ``tpu`` or ``cuda``.

    Returns:
        What ``jax.export.deserialize`` reads. Its arguments and results are the program's, flat.

    Raises:
        UnsupportedError: where the program calls back into Python, which has no place in a compiled file.
    """
    axis_types = (AxisType.Auto,) * len(plan.mesh.shape)
    mesh = AbstractMesh(plan.mesh.shape, plan.mesh.axis_names, axis_types=axis_types)
    spmd = SpmdProgram(program, plan, mesh)

    def planned(*leaves: Any) -> list[Any]:
        return spmd(leaves)

    planned.__name__ = program.name
    jitted = jax.jit(
        planned,
        in_shardings=tuple(spmd.argument_shardings),
        out_shardings=spmd.result_shardings,
        donate_argnums=tuple(i for i, given in enumerate(program.donated) if given),
    )
    with no_explicit_mesh():
        try:
            return bytes(jax.export.export(jitted, platforms=[platform])(*avals).serialize())
        except (NotImplementedError, ValueError) as error:
            raise UnsupportedError(
                f"{program.name} cannot be compiled apart from this process: {error}. Callbacks into Python "
                "(jax.debug.print, io_callback, pure_callback) are the usual reason: verify without them."
            ) from error
