"""Least absolute relative deviations: a linear fit that a few disturbed measurements do not move."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog


def robust_fit(
    features: np.ndarray, seconds: np.ndarray, offsets: np.ndarray, least: np.ndarray
) -> np.ndarray:
    r"""Coefficients c of t = offset + A c that minimise sum |offset + A c - t| / t, exactly, with c >= least.

    As a linear program: min sum u subject to -u <= (offset + A c - t) / t <= u. Dividing by t weighs every
    size alike, microseconds and seconds; the absolute value, unlike a square, leaves the fit where most of
    the measurements are.

    Args:
        features: A, (measurements, coefficients); each column must have a non-zero entry.
        seconds: t, (measurements,), positive.
        offsets: known parts of the times, (measurements,), in seconds.
        least: lower bounds, (coefficients,).

    Returns:
        c, (coefficients,).
    """
    count, width = features.shape
    relative = features / seconds[:, None]
    scale = np.abs(relative).max(axis=0)  # HiGHS works to absolute tolerances
    a = relative / scale
    b = 1 - offsets / seconds
    identity = np.eye(count)
    result = linprog(
        np.concatenate([np.zeros(width), np.ones(count)]),
        A_ub=np.block([[a, -identity], [-a, -identity]]),
        b_ub=np.concatenate([b, -b]),
        bounds=[*((low, None) for low in least * scale), *[(0, None)] * count],
        method="highs",
    )
    if not result.success:  # the program is feasible and bounded for every finite input
        raise ValueError(f"no fit: {result.message}")
    return result.x[:width] / scale
