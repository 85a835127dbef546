"""NaN and infinity under ``jax_debug_nans`` and ``jax_debug_infs``: names the operation, as ``jit`` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import jax

from ..compiler.frontend import function_name
from ..compiler.jax_compat import InvalidResult

__all__ = ["InvalidResult", "explain_invalid"]


def explain_invalid(
    error: InvalidResult,
    fun: Callable[..., Any],
    has_donated: bool,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> NoReturn:
    """Runs a function again operation by operation, so that the one that makes an invalid number raises.

    Args:
        error: what the compiled program raised.
        fun: the function as the user wrote it.
        has_donated: whether the call gave arguments away; then there is nothing left to run it on.
        args: its arguments.
        kwargs: its keyword arguments.

    Raises:
        FloatingPointError: always; from the operation where it can be found.
    """
    found = f"the planned program of {function_name(fun)} returned {error.ty}"
    if has_donated:
        raise FloatingPointError(
            f"{found}; its arguments were donated, so that it cannot be run again: call it without donation "
            "to find the operation."
        ) from None
    try:
        with jax.disable_jit():
            fun(*args, **kwargs)
    except FloatingPointError as located:
        raise located from None
    raise FloatingPointError(
        f"{found}, but run operation by operation it makes no invalid number: it may be a literal or come of "
        "the compiler's reordering."
    ) from None
