"""Calling conventions of the model libraries: where ``nnx.jit`` or ``eqx.filter_jit`` would stand.

Under such a convention a function is planned in a pure form, of pytrees of arrays alone. Arguments are turned
into that form before a call, and its results back after it. The libraries are recognised by the objects a
call brings and never imported here.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np

PureCall = tuple[tuple[Any, ...], dict[str, Any]]


class Convention(Protocol):
    """How calls of one library's objects become calls of a pure function and back."""

    name: str

    def applies(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether a call brings the library's objects."""
        ...

    def pure(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """The function of pytrees of arrays that is planned in the user's function's place."""
        ...

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> PureCall:
        """The pure function's arguments for a call."""
        ...

    def result(self, result: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the call returns, once the pure function has; objects mutated in place are updated here."""
        ...


class _NnxJit:
    """Flax NNX: modules, optimizers and random streams are mutated in place, as under ``nnx.jit``."""

    name = "nnx"

    def applies(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        return any(True for _ in self._holders(args, kwargs))

    def pure(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fun)
        def call(*args: Any, **kwargs: Any) -> Any:
            # Each trace rebuilds the objects, so the user's own are untouched by what fun does to them.
            out = fun(*args, **kwargs)
            return (out, *self._holders(args, kwargs))

        return call

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> PureCall:
        return tuple(args), dict(kwargs)

    def result(self, result: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        nnx = sys.modules["flax.nnx"]
        out, *mutated = result
        for original, new in zip(self._holders(args, kwargs), mutated, strict=True):
            nnx.update(original, nnx.state(new))
        return out

    def _holders(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
        """The outermost NNX objects of a call, in order."""
        nnx = sys.modules.get("flax.nnx")
        if nnx is None:
            return
        ordered = (tuple(args), tuple(kwargs[name] for name in sorted(kwargs)))
        for node in jax.tree.leaves(ordered, is_leaf=lambda x: isinstance(x, nnx.Pytree)):
            if isinstance(node, nnx.Pytree):
                yield node


@jax.tree_util.register_pytree_node_class
class StaticLeaf:
    """A leaf that is no array, kept in a pytree's structure so that it is static."""

    def __init__(self, value: Any) -> None:
        """Wraps a value."""
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StaticLeaf) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def tree_flatten(self) -> tuple[tuple[()], Any]:
        """No children; the value is part of the structure."""
        return (), self.value

    @classmethod
    def tree_unflatten(cls, value: Any, children: tuple[()]) -> StaticLeaf:
        """Rebuilds from the structure."""
        del children
        return cls(value)


class _FilterJit:
    """Equinox: arrays are traced and every other leaf is static, as under ``eqx.filter_jit``."""

    name = "equinox"

    def applies(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        equinox = sys.modules.get("equinox")
        if equinox is None:
            return False
        leaves = jax.tree.leaves((args, kwargs), is_leaf=lambda x: isinstance(x, equinox.Module))
        return any(isinstance(leaf, equinox.Module) for leaf in leaves)

    def pure(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fun)
        def call(*args: Any, **kwargs: Any) -> Any:
            return _hide(fun(*_show(args), **_show(kwargs)))

        return call

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> PureCall:
        return _hide(tuple(args)), _hide(dict(kwargs))

    def result(self, result: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        del args, kwargs
        return _show(result)


def _hide(tree: Any) -> Any:
    arrays = (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct)
    return jax.tree.map(lambda leaf: leaf if isinstance(leaf, arrays) else StaticLeaf(leaf), tree)


def _show(tree: Any) -> Any:
    def value(leaf: Any) -> Any:
        return leaf.value if isinstance(leaf, StaticLeaf) else leaf

    return jax.tree.map(value, tree, is_leaf=lambda x: isinstance(x, StaticLeaf))


CONVENTIONS: tuple[Convention, ...] = (_NnxJit(), _FilterJit())


def convention_of(
    args: Sequence[Any], kwargs: Mapping[str, Any], known: Sequence[Convention]
) -> Convention | None:
    """The convention among ``known`` of the library whose objects a call brings; None for plain pytrees."""
    return next((c for c in known if c.applies(args, kwargs)), None)
