"""Every public error of the project. Each docstring is its manual entry: cause, failing example, fix."""

from collections.abc import Mapping, Sequence

from ..cost_models.errors import (
    CalibrationError,
    HardwareRecordError,
    HloFormatError,
    InvalidMeshError,
    MeshwrightError,
    UnknownClusterError,
)

__all__ = [
    "ArgumentError",
    "CalibrationError",
    "CompilerError",
    "HardwareRecordError",
    "HloFormatError",
    "IndivisibleError",
    "InfeasibleError",
    "InvalidMeshError",
    "MeshwrightError",
    "PinError",
    "PlanFormatError",
    "PlanMismatchError",
    "SolverError",
    "TemplateError",
    "TraceError",
    "UnknownClusterError",
    "UnsupportedError",
]


class TraceError(MeshwrightError, TypeError):
    """The function could not be traced by JAX on abstract values.

    Cause: Python control flow on an array value, a side effect on a tracer, a result that is no array, or a
    wrong call. Other errors raised inside the function come through as they are.
    Example: `mw.plan(lambda x: x if x.sum() > 0 else -x, spec, cluster="cpu:8")`.
    Fix: make `jax.make_jaxpr(f)(*args)` work first: use `jax.lax.cond`/`jnp.where`, or mark the argument
    static. The JAX error is chained as the cause.
    """


class ArgumentError(MeshwrightError):
    """An argument of a public call has a wrong type or value.

    Cause: a leaf of the arguments is not an array or a ShapeDtypeStruct, an argument number is out of range,
    or two options contradict each other. Example: `mw.plan(step, {"lr": "0.1"}, cluster="cpu:8")` (a string
    leaf).
    Fix: pass arrays or `jax.ShapeDtypeStruct`s; close over other values or mark them static. The message
    names the path.
    """


class IndivisibleError(MeshwrightError):
    """A dimension must be split over mesh axes whose product does not divide it.

    Cause: a pinned or required sharding on a dimension of unsuitable size.
    Example: pinning a batch of 6 examples over the 4 devices of `data` on `cpu:4`.
    Fix: pad the dimension to a multiple, split over fewer axes, or leave it unpinned; inside the program
    the planner splits such dimensions with padding, but JAX refuses arguments and results that are.

    Attributes:
        path: pytree path of the value.
        dim: index of the dimension.
        size: its size in elements.
        parts: product of the axis sizes it was to be split over.
    """

    def __init__(self, path: str, dim: int, size: int, parts: int, axes: Sequence[str] = ()) -> None:
        self.path, self.dim, self.size, self.parts = path, dim, size, parts
        over = f" (mesh axes {', '.join(axes)})" if axes else ""
        padded = -(-size // parts) * parts
        super().__init__(
            f"{path}: dimension {dim} has size {size}, which {parts} devices{over} do not divide. "
            f"Pad it to {padded}, split it over fewer axes, or leave it unpinned."
        )


class PinError(MeshwrightError):
    """A pin (a sharding the user fixed) cannot be honoured.

    Cause: its pattern matches no value, it names an unknown mesh axis, it uses an axis twice, or a sharding
    that does not fit the array. Where several pins match one array, the last one given holds.
    Example: `pins={"params/mpl/*": P("model")}` (the path is `params/mlp`).
    Fix: take paths from `plan.shardings` and axis names from the mesh; the message lists the nearest ones.
    """


class TemplateError(MeshwrightError):
    """The template asked for does not apply to the program or the mesh.

    Cause: the program has no dim of the role that the template splits, the mesh has too few axes, or an axis
    divides none of the dims.
    Example: `template="expert"` for a program without experts.
    Fix: one of the templates that the message names, another mesh, or no template: the planner compares its
    plan with those that apply.

    Attributes:
        template: the one asked for.
        reasons: why not, by mesh shape.
        applying: names of the templates that apply.
    """

    def __init__(
        self, template: str, program: str, reasons: Mapping[tuple[int, ...], str], applying: Sequence[str]
    ) -> None:
        self.template, self.reasons, self.applying = template, dict(reasons), tuple(applying)
        meshes: dict[str, list[str]] = {}
        for shape, reason in self.reasons.items():
            meshes.setdefault(reason, []).append("x".join(map(str, shape)))
        why = "; ".join(f"on mesh {' and '.join(shapes)} {reason}" for reason, shapes in meshes.items())
        others = f"These apply: {', '.join(self.applying)}." if self.applying else "No template applies."
        super().__init__(f"template={template!r} does not apply to {program}: {why}. {others}")


class InfeasibleError(MeshwrightError):
    """No sharding in the search space fits the memory of the cluster.

    Cause: the values alive at one moment exceed the budget however they are split.
    Example: planning 70 billion f32 parameters with Adam on `v5e:2x2`.
    Fix: more devices, a larger `budget_bytes`, micro-batches, rematerialisation, smaller state dtypes, or
    fewer pins. Planning again with `least_budget_bytes` works.

    Attributes:
        least_budget_bytes: smallest per-device budget for which a plan was found, in bytes.
        budget_bytes: the per-device budget asked for, in bytes.
        live_point: where in the program the peak is (operation and source line).
        top_tensors: what takes the most there, as (name, bytes per device); equal values together ("w x 12").
        is_proven: whether it was proved that nothing fits; otherwise the search gave up at its limits, and a
            higher `effort` or a longer `time_limit_s` may find a plan.
        time_limit_s: the limit that ended the search, or None.
    """

    def __init__(
        self,
        least_budget_bytes: int,
        budget_bytes: int,
        live_point: str,
        top_tensors: Sequence[tuple[str, int]] = (),
        is_proven: bool = True,
        time_limit_s: float | None = None,
    ) -> None:
        self.least_budget_bytes = least_budget_bytes
        self.budget_bytes = budget_bytes
        self.live_point = live_point
        self.top_tensors = list(top_tensors)
        self.is_proven = is_proven
        self.time_limit_s = time_limit_s
        more = "a higher effort" if time_limit_s is None else f"more than time_limit_s={time_limit_s:g}"
        found = "No plan fits" if is_proven else f"No plan was found that fits ({more} may find one)"
        largest = "".join(f"\n  {_size(size):>10}  {name}" for name, size in self.top_tensors)
        super().__init__(
            f"{found}: the budget is {_size(budget_bytes)} per device, and the least that works is "
            f"{_size(least_budget_bytes)} ({least_budget_bytes} bytes), needed at {live_point}. Use more "
            "devices, micro-batches or rematerialisation, or raise the budget."
            + (f"\nLargest values alive there:{largest}" if largest else "")
        )


def _size(count: int) -> str:
    """Bytes in the largest unit that leaves at least one."""
    units = [("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)]
    unit, scale = next((u for u in units if count >= u[1]), ("B", 1))
    return f"{count / scale:.4g} {unit}"


class PlanMismatchError(MeshwrightError):
    """A plan is used with another program, mesh or hardware than it was made for.

    Cause: shapes, code, devices or the hardware record changed since planning.
    Example: loading a plan made for batch 32 and calling the step with batch 64.
    Fix: plan again, or use the arguments and cluster named in the plan.

    Attributes:
        name: the first thing that differs.
        expected: what the plan says.
        found: what is there.
    """

    def __init__(
        self, name: str, expected: object, found: object, fix: str = "", problem: str | None = None
    ) -> None:
        self.name, self.expected, self.found = name, expected, found
        differs = f"The plan does not fit: {name} is {found!r} here but {expected!r} in the plan."
        super().__init__(
            f"{problem or differs} {fix or 'Make a new plan, or use what the plan was made for.'}"
        )


class PlanFormatError(MeshwrightError):
    """A plan file cannot be read.

    Cause: it is truncated, was altered after saving, is not a plan, or has a version this release does not
    know.
    Example: `Plan.load` of a half-copied file. Fix: copy or save it again; for an unknown version, upgrade
    meshwright.
    """


class SolverError(MeshwrightError):
    """The optimisation back end failed for a reason other than memory.

    Cause: the solver stopped without any solution or reported a numerical failure.
    Example: costs so far apart that the solver reports a numerical failure. Fix: lower `effort`; if it
    remains, report the program that the message names.
    """


class CompilerError(MeshwrightError):
    """XLA's compiler for absent devices did not compile the planned program.

    Cause: it refused the program, ended, or ran past the time limit.
    Example: `mw.verify(plan, step, state, batch, time_limit_s=1)`.
    Fix: for a time limit, a longer one; otherwise the compiler's own words, which the message ends with, and
    the versions that `pip install 'meshwright[tpu]'` or `[gpu]` bring.

    Attributes:
        topology: what it compiled for.
        exit_code: the child process's; None where it was ended.
        last_lines: the last of what the compiler said.
    """

    def __init__(self, topology: str, exit_code: int | None, last_lines: Sequence[str]) -> None:
        self.topology, self.exit_code, self.last_lines = topology, exit_code, tuple(last_lines)
        code = "" if exit_code is None else f" (exit code {exit_code})"
        words = "".join(f"\n  {line}" for line in last_lines)
        super().__init__(f"The compiler did not compile the program for {topology}{code}:{words}")


class UnsupportedError(MeshwrightError):
    """The program or request is valid but meshwright does not handle it.

    Cause: a feature without an implementation, named in the message.
    Example: pipelining a function whose batch dimension feeds back non-linearly.
    Fix: as the message says; usually an option turns the feature off.
    """
