"""The decorator: ``jax.jit`` that plans.

A decorated function is called like a jitted one. The first call with new shapes traces, plans and compiles;
later calls go straight to the compiled program, which refuses what it was not compiled for, so nothing is
checked twice.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from ..compiler.errors import ArgumentError, TraceError, UnsupportedError
from ..compiler.frontend import TraceOptions, function_name, trace_program
from ..compiler.ir import Program
from ..compiler.jax_compat import in_explicit_mesh, jit_is_disabled, no_explicit_mesh, outside_any_trace
from ..compiler.lowering import require_devices
from ..compiler.plan import Plan, program_fingerprint
from ..compiler.planner import MeshLike, PinLike, PlanOptions, given_mesh, plan_program
from ..compiler.rules import RuleBook
from ..cost_models.cluster import Cluster
from .bound_method import BoundAutoParallel
from .conventions import CONVENTIONS, Convention, convention_of
from .executable import Executable, OtherSignature
from .given_plan import SEARCHING, given_plan
from .invalid_results import InvalidResult, explain_invalid
from .local_cluster import local_cluster
from .plan_check import check_arguments, check_plan
from .signature import Call, CallReader
from .state_init import init_state

ClusterLike = str | Cluster | None


class AutoParallel:
    """A function that runs planned on a mesh; made by ``autoparallel``.

    Attributes:
        fun: the function as the user wrote it.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        *,
        cluster: ClusterLike,
        trace_options: TraceOptions,
        plan_options: PlanOptions,
        given_plan: Plan | None,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        """See ``autoparallel``."""
        _check_function(fun, trace_options)
        functools.update_wrapper(self, fun, updated=())
        self.fun = fun
        self._cluster = None if cluster is None else Cluster.load(cluster)
        if self._cluster is not None and plan_options.mesh is not None:
            given_mesh(self._cluster, plan_options.mesh)  # a mesh that does not fit is told at once
        self._trace_options = trace_options
        self._plan_options = plan_options
        self._given_plan = given_plan
        self._progress = progress
        self._reader = CallReader(fun, trace_options)
        self._lock = threading.RLock()
        self._rules = RuleBook()
        self._planned_calls: dict[Any, tuple[Program, Plan]] = {}
        # By fingerprint: under other settings of JAX the program may be the same.
        self._plans: dict[str, Plan] = {}
        self._executables: dict[Any, Executable] = {}
        self._latest: Executable | None = None
        self._conventions: tuple[Convention, ...] = CONVENTIONS
        self._inner: dict[str, AutoParallel] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the function planned; arguments and results are as ``jax.jit``'s."""
        latest = self._latest
        if latest is None or kwargs or not latest.takes(args) or not outside_any_trace():
            return self._slow_call(args, kwargs)
        try:
            return latest.call(args)
        except OtherSignature:
            return self._slow_call(args, kwargs)
        except InvalidResult as error:
            explain_invalid(error, self.fun, latest.donates, args, kwargs)

    def _slow_call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if jit_is_disabled():
            return self.fun(*args, **kwargs)
        convention = convention_of(args, kwargs, self._conventions)
        if convention is not None:
            pure_args, pure_kwargs = convention.arguments(args, kwargs)
            return convention.result(self._pure(convention)(*pure_args, **pure_kwargs), args, kwargs)
        call = self._reader.read(args, kwargs)
        if in_explicit_mesh():
            raise UnsupportedError(
                f"{function_name(self.fun)} is called inside jax.set_mesh with Explicit axes, where its "
                "results could not be used: they lie on the plan's mesh. Call it outside, or use Auto axes."
            )
        if not outside_any_trace():
            return self._call_in_trace(call)
        executable = self._executable(call)
        try:
            result = executable.call_placed(call.dynamic)
        except InvalidResult as error:
            explain_invalid(error, self.fun, executable.donates, args, kwargs)
        self._latest = executable
        return result

    def _call_in_trace(self, call: Call) -> Any:
        """Under a transformation the function itself is jitted, so that its own derivative rules hold.

        Shardings of arguments and results are the plan's; what happens inside is left to the partitioner.
        """
        plan_needed = not is_planning()
        shardings = self._executable(call).boundary if plan_needed else {}
        return jax.jit(call.bound(self.fun), **shardings)(*call.dynamic)

    def _pure(self, convention: Convention) -> AutoParallel:
        """The planned pure form of the function under a library's calling convention."""
        with self._lock:
            if convention.name not in self._inner:
                pure = autoparallel(convention.pure(self.fun), **self._options())
                pure._conventions = ()
                self._inner[convention.name] = pure
            return self._inner[convention.name]

    def _plain(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[AutoParallel, Call]:
        """Who plans a call, and the call in the form it plans."""
        convention = convention_of(args, kwargs, self._conventions)
        if convention is None:
            return self, self._reader.read(args, kwargs)
        inner = self._pure(convention)
        return inner, inner._reader.read(*convention.arguments(args, kwargs))

    def _executable(self, call: Call) -> Executable:
        with self._lock:
            found = self._executables.get(call.key)
            if found is None:
                require_devices(self._num_devices())  # before a search whose plan could not run here
                program, plan = self._planned(call)
                if not program.is_closed and outside_any_trace():
                    raise TraceError(
                        f"{program.name} closes over a value of a JAX transformation that has ended: it was "
                        "traced inside one. Pass the value as an argument."
                    )
                found = Executable(program, plan, call)
                if program.is_closed:
                    self._executables[call.key] = found
            return found

    def _num_devices(self) -> int:
        if self._given_plan is not None:
            return self._given_plan.num_devices
        return (self._cluster or local_cluster()).num_devices

    def _planned(self, call: Call) -> tuple[Program, Plan]:
        with self._lock:
            found = self._planned_calls.get(call.key)
            if found is None:
                if self._given_plan is not None:
                    check_arguments(self._given_plan, self._reader.paths(call), call.avals)
                program = self._trace(call)
                found = program, self._plan_of(program)
                # Of a transformation around it, the next call may close over another thing.
                if program.is_closed:
                    self._planned_calls[call.key] = found
            return found

    def _trace(self, call: Call) -> Program:
        with _planning(), no_explicit_mesh():
            return trace_program(self.fun, self._trace_options, call.abstract_args, call.abstract_kwargs)

    def _plan_of(self, program: Program) -> Plan:
        if self._given_plan is not None:
            check_plan(self._given_plan, program, self._cluster)
            return self._given_plan
        fingerprint = program_fingerprint(program)
        if fingerprint not in self._plans:
            cluster = self._cluster or local_cluster()
            self._plans[fingerprint] = plan_program(
                program, cluster, self._plan_options, self._rules, self._progress
            )
        return self._plans[fingerprint]

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """The plan for arguments like these; no device is touched.

        Args:
            *args: arrays or ``jax.ShapeDtypeStruct``s, static arguments as they are.
            **kwargs: the same, by keyword.
        """
        planner, call = self._plain(args, kwargs)
        return planner._planned(call)[1]

    def planned_program(self, *args: Any, **kwargs: Any) -> tuple[Program, Plan, tuple[Any, ...]]:
        """The traced program for arguments like these, its plan, and the flat abstract arguments.

        Args:
            *args: as for ``plan``.
            **kwargs: the same, by keyword.
        """
        planner, call = self._plain(args, kwargs)
        return *planner._planned(call), call.avals

    def lower(self, *args: Any, **kwargs: Any) -> jax.stages.Lowered:
        """The planned program as StableHLO, like ``jax.jit(f).lower``; ``.compile()`` goes on to XLA."""
        planner, call = self._plain(args, kwargs)
        program, _ = planner._planned(call)
        if not program.is_closed:
            raise UnsupportedError(
                f"{program.name} closes over values of a transformation around it and cannot be lowered by "
                "itself: pass them as arguments."
            )
        return planner._executable(call).lowered

    def init(self, init_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Makes a state in the planned sharding; no device ever holds more than its part.

        Before any plan exists (``plan`` or a first call makes one) each array is split over all devices along
        its largest dim, and the first step moves it to its planned place.

        Args:
            init_fn: makes the state, as for one device.
            *args: its arguments.
            **kwargs: its keyword arguments.

        Raises:
            ArgumentError: where ``init_fn`` is no function.
        """
        if not callable(init_fn):
            raise ArgumentError(
                "init takes the function that makes the state, and its arguments, not a "
                f"{type(init_fn).__name__}: init(make_state, key). The first call places a state that exists."
            )
        plans = [self._given_plan] if self._given_plan else list(self._plans.values())
        cluster = self._cluster or local_cluster()
        return init_state(init_fn, args, kwargs, plans, cluster.num_devices)

    def with_options(self, **changed: Any) -> AutoParallel:
        """The same function under other options; names are those of ``autoparallel``."""
        options = {**self._options(), **changed}
        if changed.get("plan") is not None:
            # It takes the place of what was asked of a search before.
            options.update({name: None for name in SEARCHING if name not in changed})
        return autoparallel(self.fun, **options)

    def _options(self) -> dict[str, Any]:
        traced, planned = vars(self._trace_options), vars(self._plan_options)
        return {
            **traced,
            **planned,
            "cluster": self._cluster,
            "plan": self._given_plan,
            "progress": self._progress,
        }

    def clear_cache(self) -> None:
        """Forgets all plans and programs made so far, like ``jax.jit(f).clear_cache``."""
        with self._lock:
            self._planned_calls.clear()
            self._plans.clear()
            self._executables.clear()
            self._latest = None
            self._inner.clear()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else BoundAutoParallel(self, instance)

    def __copy__(self) -> AutoParallel:
        return self

    def __deepcopy__(self, memo: Any) -> AutoParallel:
        # As for functions, and for what jax.jit returns.
        return self

    def __repr__(self) -> str:
        return f"<autoparallel of {self.fun!r}>"


def _check_function(fun: Any, options: TraceOptions) -> None:
    try:
        options.jit(fun)
    except (TypeError, ValueError) as error:
        name = function_name(fun) if callable(fun) else repr(fun)
        given = ", ".join(f"{key}={value!r}" for key, value in vars(options).items() if value is not None)
        raise ArgumentError(f"autoparallel of {name}{f' with {given}' if given else ''}: {error}") from error


_state = threading.local()


class _planning:
    """While a program is traced for planning, nested planned functions are plain."""

    def __enter__(self) -> None:
        _state.depth = getattr(_state, "depth", 0) + 1

    def __exit__(self, *exc: object) -> None:
        _state.depth -= 1


def is_planning() -> bool:
    """Whether this thread is tracing a program in order to plan it."""
    return getattr(_state, "depth", 0) > 0


def autoparallel(
    fun: Callable[..., Any] | None = None,
    *,
    cluster: ClusterLike = None,
    mesh: MeshLike | None = None,
    pins: Mapping[str, PinLike] | None = None,
    budget_bytes: float | str | None = None,
    effort: int = 2,
    time_limit_s: float | None = None,
    template: str | None = None,
    plan: Plan | str | os.PathLike[str] | None = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Any:
    """Makes a single-device JAX function run planned on a mesh; goes where ``jax.jit`` would.

    Args:
        fun: the function. Without it, a decorator with the other options is returned.
        cluster: what to plan for: a ``Cluster``, or a name such as ``"h100:2x8"``. None: all local devices.
        mesh: logical mesh: sizes (``(2, 4)``, ``"2x4"``), sizes by axis name, or a JAX mesh, of which the
            axes count but not the order of devices. None: all shapes are searched.
        pins: shardings that arguments must have, by pytree path or glob: ``PartitionSpec``, a plain tuple
            for one, or ``NamedSharding``, which also fixes the mesh.
        budget_bytes: memory of one device that a plan may use, as a number or as text (``"16GiB"``). None:
            what the cluster's devices have.
        effort: 0 (fast) to 3 (thorough).
        time_limit_s: seconds after which the search takes the best plan so far.
        template: an expert template that the plan has to keep to (``"fsdp"``, ``"data+tensor"``, ...; see
            ``docs/templates.md``). None: the cheapest plan found, which is compared with all that apply.
        plan: a plan made before, or its file; no search is made, and calls that do not fit it are refused.
        static_argnums: as in ``jax.jit``.
        static_argnames: as in ``jax.jit``.
        donate_argnums: as in ``jax.jit``.
        donate_argnames: as in ``jax.jit``.
        progress: called with a line of text while a search goes on.

    Returns:
        An ``AutoParallel``: callable like the function, with ``plan``, ``lower`` and ``init``.

    Raises:
        ArgumentError, InvalidMeshError, PinError, UnknownClusterError: for wrong options, at once.
        MeshwrightError: at the first call or ``plan``, for what can be seen only with arguments.
    """
    searching = dict(zip(SEARCHING, (mesh, pins, budget_bytes, time_limit_s, template), strict=True))
    given = given_plan(plan, searching)
    options = PlanOptions(mesh, {} if pins is None else pins, budget_bytes, effort, time_limit_s, template)
    if progress is not None and not callable(progress):
        raise ArgumentError(f"progress={progress!r} is no function: give one that takes a line of text.")
    tracing = TraceOptions(static_argnums, static_argnames, donate_argnums, donate_argnames)
    make = functools.partial(
        AutoParallel,
        cluster=cluster,
        trace_options=tracing,
        plan_options=options,
        given_plan=given,
        progress=progress,
    )
    return make if fun is None else make(fun)


def plan(
    fun: Callable[..., Any], *args: Any, fun_kwargs: Mapping[str, Any] | None = None, **options: Any
) -> Plan:
    """Plans a function for a cluster, without any device.

    Args:
        fun: ordinary single-device JAX, or an ``AutoParallel``.
        *args: its arguments; ``jax.ShapeDtypeStruct``s are enough.
        fun_kwargs: its keyword arguments.
        **options: as for ``autoparallel``.

    Returns:
        The plan.
    """
    if isinstance(fun, AutoParallel):
        return fun.with_options(**options).plan(*args, **(fun_kwargs or {}))
    return autoparallel(fun, **options).plan(*args, **(fun_kwargs or {}))
