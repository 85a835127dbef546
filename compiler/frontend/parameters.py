"""Names and positions of a function's parameters, and which of them are static, as ``jax.jit`` reads them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any


def positional_parameters(fun: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the parameters that can be given by position; empty where there is no signature."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        return tuple(p.name for p in inspect.signature(fun).parameters.values() if p.kind in kinds)
    except (TypeError, ValueError):
        return ()


def as_sequence(option: Any) -> tuple[Any, ...]:
    """An option of ``jax.jit`` that may be one number or name, several, or None."""
    if option is None:
        return ()
    return (option,) if isinstance(option, (int, str)) else tuple(option)


def static_positions(argnums: Any, argnames: Any, parameters: Sequence[str]) -> frozenset[int]:
    """Positions of static arguments; negative numbers count from the last parameter."""
    numbered = [n + len(parameters) if n < 0 else n for n in as_sequence(argnums)]
    return frozenset([*numbered, *(parameters.index(n) for n in as_sequence(argnames) if n in parameters)])


def static_names(argnums: Any, argnames: Any, parameters: Sequence[str]) -> frozenset[str]:
    """Names of static arguments, for calls by keyword."""
    numbered = static_positions(argnums, None, parameters)
    return frozenset([*as_sequence(argnames), *(parameters[i] for i in numbered if i < len(parameters))])
