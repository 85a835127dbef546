"""Measuring: CPU seconds, peak memory, medians, and a process of its own for each row.

CPU seconds are user plus system time over all threads, so a second process on the machine disturbs them far
less than wall time. A row that ran in a fresh process has imported, allocated and cached nothing for the
next.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import resource
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

Result = TypeVar("Result")

_KIB_PER_MIB = 1024


def cpu_s() -> float:
    """CPU seconds that this process and its finished children have used, all threads together."""
    own, children = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def peak_rss_mib() -> float:
    """The most memory this process has held so far, in MiB.

    On Linux ``ru_maxrss`` of a started process includes what its parent held at the start, so the kernel's
    own mark of this address space is read (``VmHWM``, proc_pid_status(5)).
    """
    status = Path("/proc/self/status")
    if status.exists():
        marks = [x for x in status.read_text().splitlines() if x.startswith("VmHWM:")]
        return int(marks[0].split()[1]) / _KIB_PER_MIB
    per_mib = _KIB_PER_MIB**2 if sys.platform == "darwin" else _KIB_PER_MIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / per_mib


def median(values: Sequence[float]) -> float:
    """The middle value, not moved by a few runs that met other work on the machine."""
    return float(statistics.median(values))


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Two of the values between which the true median lies with about 95% confidence.

    Of n independent values, n/2 +- 0.98 sqrt(n) lie below the median at that confidence (the normal
    approximation of the sign test: 1.96 standard deviations of a binomial with p = 1/2). Few values give
    their extremes.
    """
    ordered, middle = sorted(values), len(values) / 2
    reach = 0.98 * math.sqrt(len(values))
    low, high = math.floor(middle - reach), math.ceil(middle + reach)
    return ordered[max(low, 0)], ordered[min(high, len(values) - 1)]


def in_child(function: Callable[..., Result], *args: Any, devices: int = 1) -> Result:
    """Runs a function in a fresh process on virtual CPU devices, its standard output sent to standard error.

    Args:
        function: of a module that can be imported; its result must pickle.
        *args: its arguments.
        devices: how many CPU devices JAX is to have there.

    Returns:
        The function's result.

    Raises:
        Exception: whatever the function raised, with the traceback of the other process; an error that does
            not pickle arrives as ``BrokenProcessPool``.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    kept = [f for f in flags.split() if "xla_force_host_platform_device_count" not in f]
    kept.append(f"--xla_force_host_platform_device_count={devices}")
    with _environment({"XLA_FLAGS": " ".join(kept), "JAX_PLATFORMS": "cpu"}):
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=spawn, initializer=_output_to_stderr) as pool:
            return pool.submit(function, *args).result()


@contextmanager
def status(text: str) -> Iterator[None]:
    """Says on standard error what is being measured: a spinner on a terminal, else one line."""
    console = Console(stderr=True)
    if not console.is_terminal:
        print(text, file=sys.stderr, flush=True)
        yield
        return
    with console.status(text):
        yield


def _output_to_stderr() -> None:
    # A solver or compiler that prints must not get between the rows of the JSON.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
