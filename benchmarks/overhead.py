"""What a decorated call costs over ``jax.jit``: ``python -m benchmarks.overhead``.

The same step is called decorated and as ``jax.jit`` with the plan's shardings, in one process on virtual CPU
devices, in turn: each pair of calls gives one ratio, and the median ratio is quoted. A pair meets the same
state of the machine, and which of the two goes first alternates. The target for a whole step is 1.05. The
dispatch rows leave the step itself out: they count what the calling thread does until the call returns.

The steps are so small that the plan replicates them, and no program communicates.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from .measure import in_child, median, median_interval, status
from .report import report

_WARM_UP = 20
_QUICK_PAIRS = 8
# By what is timed: the clock, and whether it runs until the results are ready.
_TIMED: dict[str, tuple[Callable[[], float], bool]] = {
    "step": (time.perf_counter, True),
    "dispatch": (time.thread_time, False),
}
# Step, whether its state is donated, what is timed, and by how much fewer pairs than of the smallest step.
_KINDS = (
    ("mlp", False, "step", 1),
    ("mlp", True, "step", 1),
    ("many-leaves", True, "step", 4),
    ("mlp", False, "dispatch", 1),
    ("many-leaves", True, "dispatch", 4),
)


@dataclass(frozen=True)
class Row:
    """One step, called both ways; ``_us`` are medians of microseconds of a call.

    Attributes:
        step: which step.
        num_leaves: arrays in its arguments.
        is_donated: whether the state is donated.
        timed: ``step`` for wall time until the results are ready, ``dispatch`` for CPU time of the calling
            thread until the call returns.
        num_devices: virtual devices.
        num_pairs: pairs of calls.
        decorated_us: a decorated call.
        jit_us: a call of ``jax.jit`` with the same shardings.
        extra_us: median of their differences.
        ratio: median of their ratios.
        ratio_low: lower end of its 95% confidence interval.
        ratio_high: upper end.
        decorated_collectives: collective operations in the program that is called.
        jit_collectives: in the other; where the two differ, the ratio is not the call's alone.
    """

    step: str
    num_leaves: int
    is_donated: bool
    timed: str
    num_devices: int
    num_pairs: int
    decorated_us: float
    jit_us: float
    extra_us: float
    ratio: float
    ratio_low: float
    ratio_high: float
    decorated_collectives: int
    jit_collectives: int


def measure(step: str, donated: bool, timed: str, pairs: int) -> Row:
    """Measures one step in this process, which must have the virtual devices.

    Args:
        step: one of ``small_steps.STEPS``.
        donated: whether the state is donated.
        timed: ``step`` or ``dispatch``, see ``Row``.
        pairs: pairs of calls.
    """
    import jax

    from .small_steps import both_ways

    planned, plain, args, collectives = both_ways(step, donated)
    times = time_pairs(planned, plain, args, pairs, timed)
    ratios = [a / b for a, b in times]
    low, high = median_interval(ratios)
    return Row(
        step=step,
        num_leaves=len(jax.tree.leaves(args)),
        is_donated=donated,
        timed=timed,
        num_devices=len(jax.devices()),
        num_pairs=pairs,
        decorated_us=median([a for a, _ in times]) * 1e6,
        jit_us=median([b for _, b in times]) * 1e6,
        extra_us=median([a - b for a, b in times]) * 1e6,
        ratio=median(ratios),
        ratio_low=low,
        ratio_high=high,
        decorated_collectives=collectives[0],
        jit_collectives=collectives[1],
    )


def time_pairs(
    first: Callable[..., Any], second: Callable[..., Any], args: tuple[Any, Any], pairs: int, timed: str
) -> list[tuple[float, float]]:
    """Seconds of two training steps called in turn, each on its own state.

    Args:
        first: ``(state, batch) -> (state, ...)``.
        second: the same.
        args: first state and batch; the state is copied for each of the two.
        pairs: pairs of calls that count, after a warm-up.
        timed: ``step`` or ``dispatch``, see ``Row``.

    Returns:
        Seconds of the first and of the second, for each pair.
    """
    import jax

    state, batch = args
    states = [jax.tree.map(lambda x: x.copy(), state) for _ in range(2)]
    functions = (first, second)
    clock, wait = _TIMED[timed]
    times = []
    for pair in range(_WARM_UP + pairs):
        spent = [0.0, 0.0]
        for which in (0, 1) if pair % 2 else (1, 0):
            start_s = clock()
            result = functions[which](states[which], batch)
            if wait:
                jax.block_until_ready(result)
            spent[which] = clock() - start_s
            # The next call must not queue behind this one.
            states[which] = jax.block_until_ready(result)[0]
        times.append((spent[0], spent[1]))
    return times[_WARM_UP:]


def main(
    pairs: Annotated[int, typer.Option(help="Pairs of calls.", min=2)] = 2000,
    devices: Annotated[int, typer.Option(help="Virtual CPU devices.", min=1)] = 8,
    quick: Annotated[bool, typer.Option(help="A few calls: shows that it runs, measures nothing.")] = False,
    json: Annotated[bool, typer.Option(help="Print JSON.")] = False,
) -> None:
    """Measure the overhead of a decorated call over jax.jit with the same shardings."""
    rows = []
    for step, donated, timed, fewer in _KINDS[1:3] if quick else _KINDS:
        with status(f"{step}, {'donated' if donated else 'kept'}, {timed}"):
            count = _QUICK_PAIRS if quick else max(pairs // fewer, 2)
            rows.append(in_child(measure, step, donated, timed, count, devices=devices))
    report("A decorated call against jax.jit with the same shardings", rows, json)


if __name__ == "__main__":
    typer.run(main)
