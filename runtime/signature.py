"""Reads a call as ``jax.jit`` would: which arguments are static, what the rest look like."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import jax
import numpy as np

from ..compiler.errors import ArgumentError
from ..compiler.frontend import TraceOptions
from ..compiler.frontend.parameters import positional_parameters, static_names, static_positions
from ..compiler.jax_compat import CONCRETE_ARRAYS, ArrayImpl, trace_context

_PYTHON_SCALARS = frozenset({bool, int, float, complex})
_MOST_NAMED = 3
_array_is_deleted = ArrayImpl.is_deleted


@dataclass(frozen=True, eq=False)
class Call:
    """One call, read.

    Attributes:
        key: equal for calls that the same plan and program serve.
        dynamic: traced arguments: positional ones in order, then keyword ones by name.
        num_positional: how many of ``dynamic`` are positional.
        names: names of the keyword ones.
        static_positions: static arguments by position in the original call.
        static_keywords: static arguments by name.
        abstract_args: positional arguments as shapes, static ones as they are.
        abstract_kwargs: the same by keyword.
        in_tree: pytree structure of ``dynamic``.
        avals: abstract values of its leaves.
        context: JAX's settings at the call, as far as a trace depends on them.
    """

    key: Any
    dynamic: tuple[Any, ...]
    num_positional: int
    names: tuple[str, ...]
    static_positions: Mapping[int, Any]
    static_keywords: Mapping[str, Any]
    abstract_args: tuple[Any, ...]
    abstract_kwargs: Mapping[str, Any]
    in_tree: Any
    avals: tuple[Any, ...]
    context: Any

    def bound(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """The function of the traced arguments alone, in the order of ``dynamic``."""

        @functools.wraps(fun)
        def call(*dynamic: Any) -> Any:
            positional = list(dynamic[: self.num_positional])
            for position, value in sorted(self.static_positions.items()):
                positional.insert(position, value)
            keywords = dict(zip(self.names, dynamic[self.num_positional :], strict=True))
            return fun(*positional, **keywords, **self.static_keywords)

        return call


class CallReader:
    """Reads calls of one function."""

    def __init__(self, fun: Callable[..., Any], options: TraceOptions) -> None:
        """Reads the signature once."""
        self._names = positional_parameters(fun)
        self._static_positions = static_positions(
            options.static_argnums, options.static_argnames, self._names
        )
        self._static_names = static_names(options.static_argnums, options.static_argnames, self._names)

    def read(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        """Reads one call.

        Raises:
            ArgumentError: where a static argument cannot be hashed or a leaf is no array; all such leaves are
                named.
        """
        static = {i: args[i] for i in self._static_positions if i < len(args)}
        static_kw = {k: v for k, v in kwargs.items() if k in self._static_names}
        positional = tuple(a for i, a in enumerate(args) if i not in static)
        names = tuple(sorted(k for k in kwargs if k not in static_kw))
        dynamic = (*positional, *(kwargs[n] for n in names))
        leaves, in_tree = jax.tree.flatten(dynamic)
        if not all(map(_is_usable, leaves)):
            self._refuse(dynamic, names)
        avals = tuple(map(_abstract, leaves))
        abstract = jax.tree.unflatten(in_tree, avals)
        shown = list(abstract[: len(positional)])
        for i, value in sorted(static.items()):
            shown.insert(i, value)
        self._check_hashable(static, static_kw)
        statics = (tuple(sorted(static.items())), tuple(sorted(static_kw.items())))
        context = trace_context()
        return Call(
            key=(in_tree, avals_key(avals), statics, names, context),
            dynamic=dynamic,
            num_positional=len(positional),
            names=names,
            static_positions=static,
            static_keywords=static_kw,
            abstract_args=tuple(shown),
            abstract_kwargs={**dict(zip(names, abstract[len(positional) :], strict=True)), **static_kw},
            in_tree=in_tree,
            avals=avals,
            context=context,
        )

    def _check_hashable(self, by_position: Mapping[int, Any], by_name: Mapping[str, Any]) -> None:
        named = {self._names[i] if i < len(self._names) else f"arg{i}": v for i, v in by_position.items()}
        unhashable = {name: v for name, v in {**named, **by_name}.items() if not _is_hashable(v)}
        if unhashable:
            raise ArgumentError(
                "; ".join(
                    f"{name} is {_short(v)} of type {type(v).__name__}" for name, v in unhashable.items()
                )
                + ", which cannot be hashed: static arguments must be hashable, since a program is kept for "
                "each of their values. Give a tuple or a frozen dataclass, or trace the argument."
            )

    def paths(self, call: Call) -> list[str]:
        """Pytree path of each leaf of a call, beginning with the parameter's name."""
        return [path for path, _ in self._labelled(call.dynamic, call.names)]

    def _labelled(self, dynamic: Sequence[Any], names: Sequence[str]) -> Iterator[tuple[str, Any]]:
        labels = [*(n for i, n in enumerate(self._names) if i not in self._static_positions)]
        labels = [*labels, *(f"arg{i}" for i in range(len(labels), len(dynamic)))][
            : len(dynamic) - len(names)
        ]
        for label, tree in zip([*labels, *names], dynamic, strict=True):
            for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
                at = jax.tree_util.keystr(path, simple=True, separator="/")
                yield "/".join(filter(None, (label, at))), leaf

    def _refuse(self, dynamic: Sequence[Any], names: Sequence[str]) -> NoReturn:
        labelled = list(self._labelled(dynamic, names))
        gone = [path for path, leaf in labelled if is_deleted(leaf)]
        if gone:
            raise ArgumentError(
                f"{_some(gone)} no longer there: donated to an earlier call. Pass what that call returned, "
                "or do not donate."
            )
        others = [(path, leaf) for path, leaf in labelled if not _is_usable(leaf)]
        raise ArgumentError(
            "; ".join(f"{path} is {_short(leaf)} of type {_type_of(leaf)}" for path, leaf in others)
            + ". Arguments are pytrees of arrays and numbers: mark others static (static_argnames=...), or "
            "close over them."
        )


def avals_key(avals: Sequence[Any]) -> tuple[Any, ...]:
    """What of abstract values tells one signature from another."""
    return tuple((a.shape, a.dtype, bool(getattr(a, "weak_type", False))) for a in avals)


def is_weak(leaf: Any) -> bool:
    """Whether JAX types an argument's leaf weakly, as it does Python's numbers."""
    return type(leaf) in _PYTHON_SCALARS or getattr(leaf, "weak_type", False)


def _is_usable(leaf: Any) -> bool:
    """Whether a leaf is an array or a number that is still there."""
    return _is_array_like(leaf) and not is_deleted(leaf)


def is_deleted(leaf: Any) -> bool:
    """Whether an argument's leaf is an array that was given away before."""
    return type(leaf) in CONCRETE_ARRAYS and leaf.is_deleted()


def any_deleted(leaves: Sequence[Any]) -> bool:
    """Whether ``is_deleted`` holds of any leaf; fastest where all are plain arrays."""
    try:
        return any(map(_array_is_deleted, leaves))
    except TypeError:  # a key array, a NumPy array or a number among them
        return any(map(is_deleted, leaves))


def _some(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:_MOST_NAMED])
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return f"{shown}{more} {'are' if len(paths) > 1 else 'is'}"


def _type_of(leaf: Any) -> str:
    name = type(leaf).__name__
    return f"{name} of {leaf.dtype}" if isinstance(leaf, np.ndarray) else name


def _is_array_like(leaf: Any) -> bool:
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.dtype.kind not in "OSUMm"
    return isinstance(leaf, (*_PYTHON_SCALARS, jax.Array, jax.ShapeDtypeStruct)) or hasattr(
        leaf, "__jax_array__"
    )


def _abstract(leaf: Any) -> jax.ShapeDtypeStruct:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=bool(leaf.weak_type))
    aval = jax.typeof(leaf)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _short(value: Any, most: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."
