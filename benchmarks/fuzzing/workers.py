"""Runs cases in processes of their own, so that a compiler that aborts takes one case with it and no more."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

NUM_DEVICES = 8
# The programs are tiny and run once: compiling is what costs. Without LLVM's optimizer and XLA's own emitters
# of fusions, compiling 15 of them took 0.11 instead of 0.25 CPU-s each.
FLAGS = {
    "xla_force_host_platform_device_count": str(NUM_DEVICES),
    "xla_backend_optimization_level": "0",
    "xla_cpu_use_fusion_emitters": "false",
}
# XLA's own stack traces of errors that are reported anyhow.
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}
_CASES_PER_CACHE = 40  # compiled programs are kept until the caches are cleared
_CASES_PER_PROCESS = 400
_CASE_TIMEOUT_S = 300.0
_ENDING_S = 2.0


@dataclass(frozen=True)
class Result:
    """What one case did.

    Attributes:
        index: its number in the sequence.
        verdict: see ``check.Verdict``.
        mesh: the mesh as text.
        form: ``value`` or ``gradient``.
        primitives: operations of the program.
        collectives: kinds that its plan has.
        report: for a failure: the shrunk program, the pins, the plan and the graph.
    """

    index: int
    verdict: str
    mesh: str = ""
    form: str = ""
    primitives: frozenset[str] = frozenset()
    collectives: frozenset[str] = frozenset()
    report: str = ""


@dataclass
class _Worker:
    """A process and what it has still to do."""

    seed: int
    indices: list[int]
    shrink_s: float
    current: int | None = None
    retried: set[int] = field(default_factory=set)
    connection: Any = None
    process: Any = None

    def start(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.connection, theirs = spawn.Pipe()
        batch = self.indices[:_CASES_PER_PROCESS]
        self.process = spawn.Process(target=_work, args=(theirs, self.seed, batch, self.shrink_s))
        self.process.start()
        theirs.close()

    def stop(self) -> None:
        self.connection.close()
        # One that has just ended must keep its own status.
        self.process.join(_ENDING_S)
        self.process.kill()
        self.process.join()


def set_environment() -> None:
    """Sets what processes started from here on need; before jax starts, it serves this process too."""
    os.environ.update(JAX_PLATFORMS="cpu", JAX_ENABLE_COMPILATION_CACHE="false", **_QUIET)
    given = os.environ.get("XLA_FLAGS", "")
    added = [f"--{name}={value}" for name, value in FLAGS.items() if name not in given]
    os.environ["XLA_FLAGS"] = " ".join([given, *added]).strip()


def run_cases(seed: int, indices: Sequence[int], num_workers: int, shrink_s: float) -> Iterator[Result]:
    """Runs cases in worker processes and yields what they did, in the order they end.

    Args:
        seed: of the sequence of cases.
        indices: numbers of the cases.
        num_workers: processes.
        shrink_s: seconds for making one failure smaller; 0 reports them as drawn.
    """
    set_environment()
    workers = [_Worker(seed, list(indices[i::num_workers]), shrink_s) for i in range(num_workers)]
    running = [w for w in workers if w.indices]
    for worker in running:
        worker.start()
    try:
        while running:
            ready = wait([w.connection for w in running], timeout=_CASE_TIMEOUT_S + 2 * shrink_s)
            for worker in [w for w in running if not ready or w.connection in ready]:
                yield from _read(worker, timed_out=not ready)
                if not worker.indices:
                    worker.stop()
                    running.remove(worker)
    finally:
        for worker in running:
            worker.stop()


def _read(worker: _Worker, timed_out: bool) -> Iterator[Result]:
    """The next message of a worker; a dead one is started again after the case that killed it."""
    try:
        message = None if timed_out else worker.connection.recv()
    except (EOFError, ConnectionResetError):
        message = None
    if isinstance(message, int):
        worker.current = message
    elif message is not None:
        worker.indices.remove(message.index)
        worker.current = None
        yield message
    else:
        worker.stop()
        if worker.current is not None:
            yield from _lost(worker, worker.current, timed_out)
            worker.current = None
        if worker.indices:
            worker.start()


def _lost(worker: _Worker, index: int, timed_out: bool) -> Iterator[Result]:
    """What became of a case whose process ended: a failure, unless it runs when it is tried once more."""
    from .cases import numbered_case
    from .isolated import describe_death, exit_code

    case, status = numbered_case(worker.seed, index), worker.process.exitcode
    if not timed_out and index not in worker.retried and exit_code(case) == 0:
        print(f"case {index}: the process ended with {status}; trying again", file=sys.stderr, flush=True)
        worker.retried.add(index)
        return
    worker.indices.remove(index)
    verdict, report = "crash", f"crash: no end, or not alone (status {status})\n{case}"
    if not timed_out and index not in worker.retried:
        verdict, report = describe_death(case, worker.shrink_s)
    yield Result(index, verdict, _mesh_name(case), _form(case), report=report)


def _work(connection: Connection, seed: int, indices: Sequence[int], shrink_s: float) -> None:
    # A solver or compiler that prints must not get between the rows of the JSON.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    import logging

    import jax

    from .cases import numbered_case
    from .check import Checker
    from .reporter import Reporter

    logging.getLogger("meshwright").setLevel(logging.ERROR)
    checker = Checker()
    reporter = Reporter(checker, shrink_s)
    for done, index in enumerate(indices, 1):
        connection.send(index)
        case = numbered_case(seed, index)
        outcome = checker.check(case)
        covered = (outcome.primitives, outcome.collectives, reporter.describe(case, outcome))
        connection.send(Result(index, str(outcome.verdict), _mesh_name(case), _form(case), *covered))
        if done % _CASES_PER_CACHE == 0:
            jax.clear_caches()
            gc.collect()


def _mesh_name(case: Any) -> str:
    return "searched" if case.mesh is None else "x".join(map(str, case.mesh))


def _form(case: Any) -> str:
    return "gradient" if case.program.is_gradient else "value"
