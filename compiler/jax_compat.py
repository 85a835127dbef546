"""Everything meshwright uses of JAX that JAX does not promise to keep, in one place.

Checked on jax 0.10.2. Public names are imported where they are used; a name that stands here is either
private or has moved between the releases that meshwright supports.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.extend.core as jex_core
from jax._src import api_util as _api_util
from jax._src import array as _array
from jax._src import config as _config
from jax._src import core as _core
from jax._src import dtypes as _dtypes
from jax._src import source_info_util as _source_info_util
from jaxlib.mlir import passmanager as _passmanager

from .ir.graph import Operand, Source

try:
    from jax._src.random.prng import PRNGKeyArray as _PRNGKeyArray
except ImportError:  # before jax 0.10.2
    from jax._src.prng import PRNGKeyArray as _PRNGKeyArray  # pyright: ignore[reportMissingImports]

ClosedJaxpr = jex_core.ClosedJaxpr
Jaxpr = jex_core.Jaxpr
JaxprEqn = jex_core.JaxprEqn
JaxLiteral = jex_core.Literal
Var = jex_core.Var
closed_jaxpr_function = jex_core.jaxpr_as_fun
# What ``jax_debug_nans`` and ``jax_debug_infs`` raise from a compiled program.
InvalidResult = _api_util.InternalFloatingPointError
# All settings that a trace depends on, hashable: ``enable_x64``, default precision, device, mesh and others.
trace_context = _config.trace_context
# Whether no JAX transformation is being traced on this thread, so that arguments are concrete.
outside_any_trace = _core.trace_state_clean
# The classes of arrays that hold data, unlike tracers.
ArrayImpl = _array.ArrayImpl
CONCRETE_ARRAYS = frozenset({ArrayImpl, _PRNGKeyArray})

_KEY_IMPLEMENTATIONS = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}
_LIBRARY_MARKS = ("/site-packages/", "/dist-packages/", "/lib/python3")


def jit_is_disabled() -> bool:
    """Whether ``jax.disable_jit`` holds on this thread."""
    return bool(_config.disable_jit.value)


def in_explicit_mesh() -> bool:
    """Whether the context mesh (``jax.set_mesh``) has ``Explicit`` axes: shardings are part of types."""
    return jax.sharding.AxisType.Explicit in jax.sharding.get_abstract_mesh().axis_types


@contextlib.contextmanager
def no_explicit_mesh() -> Iterator[None]:
    """Leaves a context mesh with ``Explicit`` axes, whose types do not hold once a plan splits arrays."""
    if in_explicit_mesh():
        with no_context_mesh():
            yield
    else:
        yield


def no_context_mesh() -> Any:
    """A context without the mesh that ``jax.set_mesh`` set."""
    return jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ()))


def user_source(source_info: Any) -> Source | None:
    """The innermost frame of the user's own code, or of a library above JAX where there is none."""
    first = None
    for frame in _source_info_util.user_frames(source_info.traceback):
        if not any(mark in frame.file_name for mark in _LIBRARY_MARKS):
            return Source(frame.file_name, frame.start_line, frame.function_name)
        first = first or frame
    return Source(first.file_name, first.start_line, first.function_name) if first else None


@contextlib.contextmanager
def equation_scope(source_info: Any, context: Any) -> Iterator[None]:
    """Enters an equation's source line, name stack and context, so that what is bound inside keeps them."""
    name_stack = _source_info_util.current_name_stack() + source_info.name_stack
    with (
        _source_info_util.user_context(source_info.traceback, name_stack=name_stack),
        context.manager,
    ):
        yield


def bind(primitive: Any, operands: Sequence[Any], params: Any) -> list[Any]:
    """Applies a primitive as JAX's own interpreter would; always returns a list of results."""
    results = primitive.bind(*operands, **primitive.get_bind_params(params))
    return list(results) if primitive.multiple_results else [results]


def is_extended(dtype: Any) -> bool:
    """Whether an element type is one of JAX's own, such as random keys, rather than numpy's."""
    return _dtypes.issubdtype(dtype, _dtypes.extended)


def open_jaxpr(closed: Any) -> Any:
    """Turns a closed jaxpr without constants into an open one, as ``remat`` wants it.

    Raises:
        ValueError: where the jaxpr closes over constants.
    """
    if closed.consts:
        raise ValueError("a region closes over constants")
    return closed.jaxpr


def abstract_value(operand: Operand) -> jax.ShapeDtypeStruct:
    """The abstract array of an IR operand, extended element types included."""
    return jax.ShapeDtypeStruct(operand.type.shape, element_type(operand.type.dtype))


def element_type(name: str) -> Any:
    """The JAX element type of an IR element-type name."""
    if name.startswith("key<"):
        return jax.eval_shape(lambda: jax.random.key(0, impl=_KEY_IMPLEMENTATIONS[name])).dtype
    return jax.numpy.dtype(name)


def annotate_sharding_rules(functions: Sequence[tuple[Callable[..., Any], Sequence[Any]]]) -> Any:
    """Lowers functions to one StableHLO module and lets Shardy write each operation's rule beside it.

    Args:
        functions: pairs of a JAX function and its abstract arguments.

    Returns:
        An MLIR module whose ``main`` calls the functions in order; operations carry ``sdy.sharding_rule``.
    """

    def main(all_arguments: Sequence[Sequence[Any]]) -> list[Any]:
        # The wrapper keeps equal functions apart, so that main has one call for each.
        return [
            jax.jit(lambda *a, f=f: f(*a))(*args)
            for (f, _), args in zip(functions, all_arguments, strict=True)
        ]

    lowered = jax.jit(main, keep_unused=True).lower([args for _, args in functions])
    module: Any = lowered.compiler_ir("stablehlo")
    with module.context:
        pipeline = "builtin.module(func.func(sdy-populate-op-sharding-rules))"
        _passmanager.PassManager.parse(pipeline).run(module.operation)
    return module
