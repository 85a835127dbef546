"""Keeps planning off accelerators: it needs none, and must not take one that is busy."""

from __future__ import annotations

import os
import sys


def plan_on_cpu() -> None:
    """Makes jax use the CPU only, unless the user set ``JAX_PLATFORMS``."""
    if "JAX_PLATFORMS" in os.environ:
        return
    os.environ["JAX_PLATFORMS"] = "cpu"
    if "jax" in sys.modules:
        # jax reads the variable when it is imported; before its first use this does the same.
        sys.modules["jax"].config.update("jax_platforms", "cpu")
