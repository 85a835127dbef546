"""Are two results the same?

Tolerance. Integers, booleans and keys must be equal. A real or complex element may differ by

    2e-5 * max(1, max |expected|)  +  8 * max_k |expected_k - expected|

where the maximum over the array is taken of finite numbers, and ``expected_k`` is the reference on inputs
each of whose float32 elements is moved by at most one part in 2**20. (Where a program rounds to bfloat16, the
first term is 2**-6 instead of 2e-5.) The second term is what a difference in rounding may become in a badly
conditioned program: a cancellation, a step function, a tie. A case that needs it is *ill-conditioned*, not
equal, and it is worked out for those only. Infinities and NaNs must be where the reference has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

RTOL = 2e-5
BFLOAT16_RTOL = 2.0**-6
_PERTURBATION, _AMPLIFIED, _NUM_PERTURBED = 2.0**-20, 8.0, 4


@dataclass(frozen=True)
class Reference:
    """A program on one device.

    Attributes:
        function: the program, jitted.
        arguments: its arguments.
        expected: its results as NumPy arrays.
        rtol: the tolerance relative to the largest element.
    """

    function: Callable[..., Any]
    arguments: Sequence[Any]
    expected: Sequence[np.ndarray]
    rtol: float

    def difference(self, found: Sequence[np.ndarray]) -> tuple[str, bool]:
        """Compares results with the reference.

        Args:
            found: results of another run, in the same order.

        Returns:
            The first difference as text (empty where there is none), and whether the reference is
            ill-conditioned where results differ beyond the first term of the tolerance.
        """
        excess = [_excess(f, e, self.rtol) for f, e in zip(found, self.expected, strict=True)]
        if not any(np.any(x > 0) for x in excess):
            return "", False
        for i, (over, moved) in enumerate(zip(excess, self._spread(), strict=True)):
            wrong = over > _AMPLIFIED * moved if over.shape == moved.shape else over > 0
            if np.any(wrong):
                return _describe(i, found[i], self.expected[i], wrong), False
        return "", True

    def _spread(self) -> list[np.ndarray]:
        """How far each element moves when the inputs move by a rounding or so."""
        rng = np.random.default_rng(0)
        spread = [np.zeros(e.shape) for e in self.expected]
        for _ in range(_NUM_PERTURBED):
            moved = numbers(self.function(*(_perturbed(a, rng) for a in self.arguments)))
            for i, (m, e) in enumerate(zip(moved, self.expected, strict=True)):
                # NaN where both are infinite or NaN: nothing moved.
                spread[i] = np.fmax(spread[i], _distance(m, e))
        return spread


def numbers(tree: Any) -> list[np.ndarray]:
    """All arrays of a tree on the host; random keys as their words."""
    return [np.asarray(_raw(leaf)) for leaf in jax.tree.leaves(tree)]


def _raw(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def _distance(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    if expected.dtype.kind not in "fc":
        return np.where(found != expected, np.inf, 0.0)
    with np.errstate(invalid="ignore"):
        return np.abs(found - expected)


def _excess(found: np.ndarray, expected: np.ndarray, rtol: float) -> np.ndarray:
    """By how much each element differs beyond the tolerance; infinite where one is not finite."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return np.full(expected.shape or (1,), np.inf)
    if expected.dtype.kind not in "fc":
        return _distance(found, expected)
    finite = np.isfinite(expected)
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0, where=finite)))
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    beyond = _distance(found, expected) - rtol * scale
    return np.where(same, 0.0, np.where(np.isfinite(beyond), np.maximum(beyond, 0.0), np.inf))


def _perturbed(argument: Any, rng: np.random.Generator) -> Any:
    if argument.dtype != jnp.float32:
        return argument
    factor = 1 + _PERTURBATION * rng.uniform(-1, 1, argument.shape)
    return jnp.asarray(np.asarray(argument) * factor, jnp.float32)


def _describe(position: int, found: np.ndarray, expected: np.ndarray, wrong: np.ndarray) -> str:
    kind = f"result {position} {expected.dtype}{list(expected.shape)}"
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{kind} is {found.dtype}{list(found.shape)}"
    at = tuple(int(n) for n in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    count = f"{int(wrong.sum())} of {wrong.size} elements"
    return f"{kind} differs in {count}, first at {list(at)}: {found[at]} for {expected[at]}"
