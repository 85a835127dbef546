"""Cases that end their process, run in one process each."""

from __future__ import annotations

import multiprocessing

from .cases import Case
from .shrink import shrink

_TIME_FACTOR = 4.0  # a process takes seconds to start


def describe_death(case: Case, shrink_s: float) -> tuple[str, str]:
    """Verdict and text of a case that ended its process: ``backend`` where plain ``jax.jit`` ends it too.

    Args:
        case: the case.
        shrink_s: seconds to shrink another failure; this one gets more.
    """
    status = exit_code(case)
    if shrink_s:
        case = shrink(case, lambda smaller: exit_code(smaller) == status, _TIME_FACTOR * shrink_s)
    verdict = "backend" if exit_code(case, plainly=True) == status else "crash"
    return verdict, f"{verdict}: the process dies with status {status}\n{case}"


def exit_code(case: Case, plainly: bool = False) -> int:
    """Exit status of a process that runs a case; 0 whatever comes of the case, negative for a signal.

    Args:
        case: the case.
        plainly: runs ``jax.jit`` with the shardings of the plan's arguments and results instead of the plan.
    """
    context = multiprocessing.get_context("forkserver")
    # Imported once: what is forked has jax, but no devices yet.
    context.set_forkserver_preload(["benchmarks.fuzzing.check"])
    process = context.Process(target=_run, args=(case, plainly))
    process.start()
    process.join()
    return process.exitcode or 0


def _run(case: Case, plainly: bool) -> None:
    from .check import Checker, Outcome, Verdict, fails_plainly

    checker = Checker()
    if plainly:
        fails_plainly(case, checker.plan(case, Outcome()), Verdict.CRASH)
    else:
        checker.check(case)
