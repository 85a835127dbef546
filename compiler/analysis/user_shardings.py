"""Shardings that the user wrote into the program: constraints and the boundaries of ``shard_map``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir import Node, Program, walk_nodes

# For each dim, the axes that split it, or None where the user leaves it open.
UserSpec = tuple[tuple[str, ...] | None, ...]

CONSTRAINT = "sharding_constraint"
SHARD_MAP = "shard_map"


@dataclass(frozen=True)
class UserSharding:
    """What a node's author fixed.

    Attributes:
        mesh: sizes of the mesh axes by name.
        operands: spec of each operand.
        results: spec of each result.
    """

    mesh: Mapping[str, int]
    operands: tuple[UserSpec, ...]
    results: tuple[UserSpec, ...]


def user_sharding(node: Node) -> UserSharding | None:
    """The shardings written at a node; None at all others, and where JAX names no mesh axes."""
    if node.op == CONSTRAINT and hasattr(node.params["sharding"], "spec"):
        spec = _constraint_spec(node)
        return UserSharding(dict(node.params["sharding"].mesh.shape), (spec,), (spec,))
    if node.op == SHARD_MAP:
        inside = _specs(node.params["in_specs"], node.operands)
        outside = _specs(node.params["out_specs"], node.results)
        return UserSharding(dict(node.params["mesh"].shape), inside, outside)
    return None


def user_mesh(program: Program) -> Mapping[str, int] | None:
    """The mesh that the program's own shardings name; the first one where they differ."""
    for node in walk_nodes(program.graph):
        found = user_sharding(node)
        if found is not None and found.mesh:
            return found.mesh
    return None


def _constraint_spec(node: Node) -> UserSpec:
    rank = node.results[0].type.rank
    dims = _dims(node.params["sharding"].spec, rank)
    free = node.params.get("unconstrained_dims", ())
    return tuple(None if d in free else dim for d, dim in enumerate(dims))


def _specs(specs: Sequence[Any], values: Sequence[Any]) -> tuple[UserSpec, ...]:
    return tuple(_dims(spec, value.type.rank) for spec, value in zip(specs, values, strict=True))


def _dims(spec: Any, rank: int) -> tuple[tuple[str, ...], ...]:
    named = [(dim,) if isinstance(dim, str) else tuple(dim) if isinstance(dim, tuple) else () for dim in spec]
    return (*named, *[()] * (rank - len(named)))
