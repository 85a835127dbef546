"""Traces a user's call to a ``Program``: the graph with pytree paths, donation and carried state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from ..analysis.carried_state import match_carried_state
from ..errors import TraceError
from ..ir import Graph, Program, verify_program
from .importer import import_jaxpr
from .naming import function_name
from .parameters import positional_parameters, static_positions


@dataclass(frozen=True)
class TraceOptions:
    """How arguments are read: the options of ``jax.jit`` that concern tracing, under the same names."""

    static_argnums: int | Sequence[int] | None = None
    static_argnames: str | Sequence[str] | None = None
    donate_argnums: int | Sequence[int] | None = None
    donate_argnames: str | Sequence[str] | None = None

    def jit(self, fun: Callable[..., Any]) -> Any:
        """``jax.jit`` of a function under these options."""
        given = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return jax.jit(fun, **{name: value for name, value in given.items() if value is not None})


def trace_program(
    fun: Callable[..., Any],
    options: TraceOptions,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Program:
    """Traces a function on abstract values.

    Args:
        fun: ordinary single-device JAX.
        options: static and donated arguments.
        args: arrays or ``ShapeDtypeStruct``s; only shapes and element types are read.
        kwargs: the same, by keyword.

    Returns:
        The program.

    Raises:
        TraceError: where JAX cannot trace the function, with JAX's own reason and the user's line.
    """
    traced = _trace(fun, options, args, kwargs)
    info, in_tree = jax.tree.flatten(traced.args_info)
    # JAX passes tracers that the function closes over before its arguments.
    closed_over = len(traced.jaxpr.in_avals) - len(info)
    graph, num_values, num_nodes = import_jaxpr(traced.jaxpr, closed_over)
    in_paths = _input_paths(fun, options, traced.args_info)
    out_leaves = jax.tree_util.tree_flatten_with_path(traced.out_info)[0]
    donated = tuple(leaf.donated for leaf in info)
    program = Program(
        name=function_name(fun),
        graph=_with_paths(graph, in_paths),
        in_tree=in_tree,
        out_tree=jax.tree.structure(traced.out_info),
        in_paths=in_paths,
        out_paths=tuple(_join(path) for path, _ in out_leaves),
        donated=donated,
        carried=match_carried_state(_in_order(traced.args_info), traced.out_info),
        num_values=num_values,
        num_nodes=num_nodes,
    )
    verify_program(program)
    return program


def _trace(
    fun: Callable[..., Any], options: TraceOptions, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    try:
        return options.jit(fun).trace(*args, **kwargs)
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError, TypeError) as error:
        name = function_name(fun)
        raise TraceError(
            f"{name} cannot be traced by JAX: {error}\nmeshwright plans what jax.jit can compile; "
            "make jax.jit work on it, with the same arguments, first."
        ) from error


def _input_paths(fun: Callable[..., Any], options: TraceOptions, args_info: Any) -> tuple[str, ...]:
    positional, keywords = args_info
    names = _positional_names(fun, options, len(positional))
    paths = []
    for name, tree in [*zip(names, positional, strict=True), *sorted(keywords.items())]:
        leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
        paths += ["/".join(filter(None, (name, _join(path)))) for path, _ in leaves]
    return tuple(paths)


def _positional_names(fun: Callable[..., Any], options: TraceOptions, count: int) -> list[str]:
    """Names of the traced positional arguments; ``argN`` where the signature does not say."""
    named = positional_parameters(fun)
    static = static_positions(options.static_argnums, options.static_argnames, named)
    names = [name for i, name in enumerate(named) if i not in static]
    return (names + [f"arg{i}" for i in range(len(names), count)])[:count]


def _in_order(args_info: Any) -> list[Any]:
    """All traced arguments, in the order their leaves are flattened."""
    positional, keywords = args_info
    return [*positional, *(keywords[name] for name in sorted(keywords))]


def _join(path: Sequence[Any]) -> str:
    return jax.tree_util.keystr(tuple(path), simple=True, separator="/")


def _with_paths(graph: Graph, paths: Sequence[str]) -> Graph:
    # Values compare by identity, so the path is written into the value that nodes already read.
    for value, path in zip(graph.inputs, paths, strict=True):
        object.__setattr__(value, "path", path)
    return graph
