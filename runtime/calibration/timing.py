"""Seconds of one step: a chain of them in one program, long enough that starting it hardly counts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .steps import Step

_UNROLLED = 8  # steps in one turn of a loop, whose own time is then small beside theirs
_LONG_STEP_S = 1e-3  # a step for which the turn of a loop does not count
_MOST_TURNS = 4096
_FEWEST_STEPS = 4  # of those up to ten milliseconds, as the first also makes the pages of its result
_START_SHARE = 0.2  # of a chain's time that starting it may take, before it is made longer


@dataclass(frozen=True)
class Stopwatch:
    """Times steps on a mesh of devices, all of which run every step.

    Attributes:
        mesh: the devices.
        start_s: seconds from calling an empty program to its result.
        repeats: runs, of which the median counts.
        chain_s: seconds a chain is to take.
    """

    mesh: Mesh
    start_s: float
    repeats: int
    chain_s: float

    @classmethod
    def on(cls, mesh: Mesh, repeats: int, chain_s: float) -> Stopwatch:
        """A stopwatch that has measured its own start-up."""
        empty = Step(lambda x: x + 1, lambda: jnp.zeros((1,)))
        return cls(mesh, _median_s(*program(empty, mesh, 1, 1), max(repeats, 5)), repeats, chain_s)

    def seconds(self, step: Step, expected_s: float) -> float | None:
        """Seconds of one step.

        Args:
            step: what to time.
            expected_s: a guess that sizes the first chain; a chain that turns out too short is made longer.

        Returns:
            The median run of a chain, less the start, for one step; None where that is not above zero.
        """
        seconds, length = self._chain(step, expected_s)
        if seconds * _START_SHARE < self.start_s:
            seconds, length = self._chain(step, max(seconds - self.start_s, seconds / 10) / length)
        net_s = (seconds - self.start_s) / length
        return net_s if net_s > 0 else None

    def _chain(self, step: Step, expected_s: float) -> tuple[float, int]:
        """Median seconds of a chain as long as the expected seconds of a step make it, and its length."""
        fewest = _FEWEST_STEPS if expected_s < 10 * _LONG_STEP_S else 1
        wanted = max(fewest, round(max(self.chain_s, 2 * self.start_s / _START_SHARE) / expected_s))
        unrolled = 1 if step.fuses or expected_s > _LONG_STEP_S else _UNROLLED
        turns = min(_MOST_TURNS, -(-wanted // unrolled))
        return _median_s(*program(step, self.mesh, turns, unrolled), self.repeats), turns * unrolled


def program(step: Step, mesh: Mesh, turns: int, unrolled: int) -> tuple[Callable[..., Any], list[jax.Array]]:
    """A chain of steps as one program.

    Args:
        step: one of them.
        mesh: the devices, each of which works by itself but where the step communicates.
        turns: of a loop.
        unrolled: steps in each turn.

    Returns:
        The jitted chain and its operands, whole on each device.
    """

    def chain(carried: jax.Array, *constants: jax.Array) -> jax.Array:
        def turn(_: Any, x: jax.Array) -> jax.Array:
            for _ in range(unrolled):
                x = step.run(x, *constants)
            return x

        return lax.fori_loop(0, turns, turn, carried)

    own = PartitionSpec()
    local = jax.shard_map(chain, mesh=mesh, in_specs=own, out_specs=own, check_vma=False)
    place = NamedSharding(mesh, own)
    operands = [jax.device_put(make(), place) for make in (step.carried, *step.constants)]
    return jax.jit(local), operands


def _median_s(chain: Callable[..., Any], operands: list[jax.Array], repeats: int) -> float:
    jax.block_until_ready(chain(*operands))  # compiles, and warms up
    return statistics.median(_run_s(chain, operands) for _ in range(repeats))


def _run_s(chain: Callable[..., Any], operands: list[jax.Array]) -> float:
    begin = time.perf_counter()
    jax.block_until_ready(chain(*operands))
    return time.perf_counter() - begin
