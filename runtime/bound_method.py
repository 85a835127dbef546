"""Planned methods: what a planned function is as an attribute of an object."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax

from ..compiler.plan import Plan

if TYPE_CHECKING:
    from .autoparallel import AutoParallel


class BoundAutoParallel:
    """A planned method of one object: ``step.plan(batch)`` for ``step.plan(model, batch)``."""

    def __init__(self, planned: AutoParallel, instance: Any) -> None:
        """Binds a planned function to its first argument."""
        functools.update_wrapper(self, planned.fun, updated=())
        self.__self__, self.__func__ = instance, planned

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the method planned."""
        return self.__func__(self.__self__, *args, **kwargs)

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """See ``AutoParallel.plan``."""
        return self.__func__.plan(self.__self__, *args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> jax.stages.Lowered:
        """See ``AutoParallel.lower``."""
        return self.__func__.lower(self.__self__, *args, **kwargs)

    def init(self, init_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """See ``AutoParallel.init``."""
        return self.__func__.init(init_fn, *args, **kwargs)
