r"""Rates of one device and the kernel floor, from products of matrices and element-wise operations.

The roofline of `cost_models.compute` is linear in the floor f and in seconds per operation and per byte, once
it is known which side of its maximum holds:

    t = f + F / (u R)    or    t = f + B / R_m

R is the achieved rate of an element type's products or of the vector unit, R_m that of the memory, u the tile
utilisation. Products and vector operations start on the left, copies on the right; the fit is repeated with
the sides that its own rates give until they stay. Small products determine f, large ones R, copies R_m.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from ..hardware_record import Hardware
from .points import ComputePoint, Measurement, Operation
from .regression import robust_fit
from .split import LEAST_RATE_INVERSE, LEAST_TIME_S, split_rate

_FLOOR, _MEMORY, _VECTOR = "kernel.floor_s", "memory", "peak_flops.vector"
_COPIES = frozenset({Operation.SCALE, Operation.ADD})
_MOST_ROUNDS = 10

_Rows = list[tuple[ComputePoint, float]]


def fit_compute(measurements: Sequence[Measurement], base: Hardware) -> dict[str, float]:
    """Numbers of the record that compute measurements determine.

    Args:
        measurements: of any points; collectives are passed over.
        base: its peaks divide the achieved rates into peak and efficiency, its tiles give the utilisation.

    Returns:
        Values by key (`kernel.floor_s`, `efficiency.matmul`, `peak_flops.bf16`, ...). A number that nothing
        measured bears on is absent.
    """
    rows = [(m.point, m.seconds) for m in measurements if isinstance(m.point, ComputePoint)]
    if not rows:
        return {}
    sides = [_MEMORY if point.operation in _COPIES else _unit(point) for point, _ in rows]
    costs = _solve(rows, sides, base)
    for _ in range(_MOST_ROUNDS):
        before, sides = sides, [_side(point, costs, base) for point, _ in rows]
        if sides == before:
            break
        costs = _solve(rows, sides, base)
    return _numbers(costs, base)


def _unit(point: ComputePoint) -> str:
    """The record's name for the unit that does a point's operations."""
    return f"peak_flops.{point.dtype}" if point.operation is Operation.MATMUL else _VECTOR


def _work(point: ComputePoint, bound: str, base: Hardware) -> float:
    """Bytes, or operations over the tile utilisation."""
    return point.cost.bytes if bound == _MEMORY else point.cost.flops / point.utilisation(base)


def _solve(rows: _Rows, bounds: Sequence[str], base: Hardware) -> dict[str, float]:
    """The floor, and seconds per byte or operation of each unit that bounds a row."""
    units = sorted(set(bounds))
    features = np.zeros((len(rows), 1 + len(units)))
    features[:, 0] = 1.0
    for row, ((point, _), bound) in enumerate(zip(rows, bounds, strict=True)):
        features[row, 1 + units.index(bound)] = _work(point, bound, base)
    seconds = np.array([seconds for _, seconds in rows])
    least = np.array([LEAST_TIME_S, *[LEAST_RATE_INVERSE] * len(units)])
    fitted = robust_fit(features, seconds, np.zeros(len(rows)), least)
    return dict(zip((_FLOOR, *units), fitted.tolist(), strict=True))


def _side(point: ComputePoint, costs: dict[str, float], base: Hardware) -> str:
    """Which side of the roofline a point is on under fitted costs; a unit without one bounds nothing."""
    candidates = (_unit(point), _MEMORY)
    return max(candidates, key=lambda bound: costs.get(bound, 0.0) * _work(point, bound, base))


def _numbers(costs: dict[str, float], base: Hardware) -> dict[str, float]:
    rates = {key: 1 / cost for key, cost in costs.items() if key != _FLOOR}
    numbers = {_FLOOR: costs[_FLOOR], **_product_numbers(rates, base)}
    if _MEMORY in rates:
        numbers |= split_rate(rates[_MEMORY], base.memory_bandwidth, "memory.bandwidth", "efficiency.memory")
    if _VECTOR in rates:
        numbers |= split_rate(rates[_VECTOR], base.vector_flops, _VECTOR, "efficiency.vector")
    return numbers


def _product_numbers(rates: dict[str, float], base: Hardware) -> dict[str, float]:
    """One efficiency for all element types, the median; each peak such that peak x efficiency is its rate."""
    products = {key: rate for key, rate in rates.items() if key not in (_MEMORY, _VECTOR)}
    if not products:
        return {}
    fractions = [rate / base.peak_flops(key.removeprefix("peak_flops.")) for key, rate in products.items()]
    efficiency = min(1.0, statistics.median(fractions))
    return {"efficiency.matmul": efficiency, **{key: rate / efficiency for key, rate in products.items()}}
