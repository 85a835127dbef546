"""Roles are found in the graph alone: these programs have no telling names."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from meshwright.compiler.ir import Program
from meshwright.compiler.planner.region_models import REGION_MODELS
from meshwright.compiler.planner.templates import dim_factors
from meshwright.compiler.planner.templates.role import Role
from meshwright.compiler.planner.templates.roles import Roles, find_roles

from . import expert_programs as programs
from .models import BOOK, DONATE, f32, traced


def _found(case: programs.Case) -> tuple[Program, Roles]:
    program = traced(*case, options=DONATE)
    return program, find_roles(program, BOOK)


def _sizes(roles: Roles) -> dict[str, list[int]]:
    return {r.name: sorted(s) for r, s in roles.sizes.items() if s and r is not Role.OTHER}


def _of(program: Program, roles: Roles, path: str) -> list[str]:
    value = program.graph.inputs[program.in_paths.index(path)]
    return ["*".join(sorted(r.name for r in dim)) for dim in roles.of_dims(value)]


EXPECTED = {
    "decoder": {"BATCH": [16], "SEQUENCE": [32], "INNER": [3, 8, 128, 256], "STREAM": [64]},
    "mlp": {"BATCH": [128], "INNER": [512], "STREAM": [64]},
    "moe": {"BATCH": [8], "SEQUENCE": [16, 64], "INNER": [256], "STREAM": [64], "EXPERT": [8]},
    "cnn": {"BATCH": [64], "INNER": [3, 64], "STREAM": [16, 32]},
}


@pytest.mark.parametrize("name", sorted(programs.PROGRAMS))
def test_roles_of_dims(name: str) -> None:
    _, roles = _found(programs.PROGRAMS[name]())
    assert _sizes(roles) == EXPECTED[name]


@pytest.mark.parametrize("name", sorted(programs.PROGRAMS))
def test_parameters_and_other_state(name: str) -> None:
    program, roles = _found(programs.PROGRAMS[name]())
    paths = program.in_paths
    assert {i for i, path in enumerate(paths) if path.startswith("q/0")} == roles.parameters
    assert {i for i, path in enumerate(paths) if path.startswith("q/1")} == roles.optimizer


def test_a_residual_stream_is_no_inner_feature() -> None:
    program, roles = _found(programs.decoder())
    assert _of(program, roles, "q/0/1/0/0") == ["STREAM", "INNER", "INNER", "INNER"]
    assert _of(program, roles, "q/0/1/1/3") == ["INNER", "STREAM"]
    assert _of(program, roles, "q/0/0") == ["INNER", "STREAM"]  # the table that tokens are looked up in


def test_a_batch_in_the_second_dim() -> None:
    def loss(w: Any, z: Any) -> Any:
        x = z @ w[0]
        s = jax.nn.softmax(jnp.einsum("qbd,kbd->bqk", x, x))
        return jnp.mean(jnp.einsum("bqk,kbd->qbd", s, x) @ w[1])

    program, roles = _found((programs.step_of(loss), ([f32(8, 8)] * 2, [f32(8, 8)] * 2), f32(48, 24, 8)))
    assert _of(program, roles, "z")[:2] == ["SEQUENCE", "BATCH"]


def test_merged_dims_keep_both_roles() -> None:
    def loss(w: Any, z: Any) -> Any:
        x = jnp.tanh(z.reshape(-1, 8) @ w[0]).reshape(z.shape)
        return jnp.mean((x.sum(1) @ w[1]) ** 2)

    program, roles = _found((programs.step_of(loss), ([f32(8, 8)] * 2, [f32(8, 8)] * 2), f32(48, 24, 8)))
    assert _of(program, roles, "z")[:2] == ["BATCH", "SEQUENCE"]
    merged = [v for v in roles.dims if v.type.shape == (1152, 8)]
    assert {Role.BATCH, Role.SEQUENCE} <= set(roles.of_dims(merged[0])[0])


def test_layers_in_a_scan() -> None:
    def loss(w: Any, z: Any) -> Any:
        return jnp.mean(jax.lax.scan(lambda x, v: (x + jnp.tanh(x @ v[0]) @ v[1], None), z, w)[0] ** 2)

    w = (f32(4, 32, 96), f32(4, 96, 32))
    program, roles = _found((programs.step_of(loss), (w, w), f32(16, 32)))
    assert _of(program, roles, "q/0/0") == ["OTHER", "STREAM", "INNER"]
    assert _of(program, roles, "z") == ["BATCH", "STREAM"]
    assert roles.parameters == {0, 1}
    assert roles.optimizer == {2, 3}


def test_without_state_the_batch_is_what_activations_carry() -> None:
    program = traced(lambda a, b: jnp.tanh(b @ a[0]) @ a[1], (f32(32, 96), f32(96, 32)), f32(16, 32))
    roles = find_roles(program, BOOK)
    assert _sizes(roles) == {"BATCH": [16], "INNER": [96], "STREAM": [32]}
    assert roles.parameters == {0, 1}


def test_a_program_without_any_role() -> None:
    roles = find_roles(traced(lambda a: jnp.sort(a), f32(16)), BOOK)
    assert not roles.parameters
    assert not roles.weighted


def test_loops_and_branches_pass_dims_on() -> None:
    assert dim_factors._REGIONS.keys() == REGION_MODELS.keys()

    def loss(w: Any, z: Any) -> Any:
        x = jax.lax.fori_loop(0, 3, lambda _, x: jnp.tanh(x @ w[0]), z)
        x = jax.lax.cond(jnp.sum(x) > 0, lambda x: x @ w[1], lambda x: x @ w[2], x)
        return jnp.mean(jax.checkpoint(jnp.tanh)(x) ** 2)

    w = [f32(32, 32), f32(32, 48), f32(32, 48)]
    program, roles = _found((lambda q, z: (q, loss(q[0], z)), (w, w), f32(16, 32)))
    assert _of(program, roles, "z")[0] == "BATCH"
    assert roles.parameters == {0, 1, 2}
    assert len(roles.weighted) == 3
