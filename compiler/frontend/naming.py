"""What plans and errors call a user's function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

_LAMBDA = "<lambda>"


def function_name(fun: Callable[..., Any]) -> str:
    """A name by which a user finds a function again.

    Decorators and ``functools.partial`` give the name of the function inside; a lambda, which has none, is
    called by its place (``lambda at train.py:12``); another callable object by its type.
    """
    inner = _innermost(fun)
    name = getattr(inner, "__name__", type(inner).__name__)
    code = getattr(inner, "__code__", None)
    if name == _LAMBDA and code is not None:
        return f"lambda at {Path(code.co_filename).name}:{code.co_firstlineno}"
    return name


def _innermost(fun: Callable[..., Any]) -> Callable[..., Any]:
    inner = inspect.unwrap(fun)
    # A wrapped partial has no name to give its wrapper, so the two are peeled off in turn.
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    return inner
