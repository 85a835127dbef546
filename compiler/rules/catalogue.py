"""The list of every operation JAX can make on the CPU: where its rule comes from and how that is checked.

The operations are the primitives bound in the modules of the installed JAX, so a new release shows up by
itself. Those that ``samples`` uses are given with the rule of their sample. The others are sorted by the part
of JAX they belong to; what is in none of those is asked of Shardy when a program brings it.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import jax.extend.core

from ..frontend import TraceOptions, trace_program
from ..frontend.importer import REGION_PARAMS
from ..ir import Node, walk_nodes
from .declared import OPAQUE, declared_rules
from .manual import MANUAL_RULES
from .registry import RuleBook
from .samples import OTHERS, SIZELESS, Sample

# Imported before the modules are searched, so that the list does not depend on what a program has loaded.
_MODULES = (
    *("jax.lax", "jax.scipy.linalg", "jax.ffi", "jax.export", "jax.experimental.pallas"),
    *("jax.experimental.checkify", "jax.experimental.custom_partitioning", "jax.experimental.sparse"),
)

# Operations that no program on the CPU can hold.
_OTHER_PLATFORMS = ("cudnn", "mosaic", "triton", "tpu", "rocm", "oneapi")

INLINED = frozenset(
    {
        *("jit", "pjit", "closed_call", "core_call"),
        *("custom_jvp_call", "custom_vjp_call", "custom_lin"),
    }
)
_USER_SHARDINGS = frozenset({"sharding_constraint", "shard_map"})
SHARD_CASES = frozenset(
    {
        *("abs", "add", "argmax", "argmin", "atan2", "bitcast_convert_type", "broadcast_in_dim", "cholesky"),
        *("clamp", "concatenate", "conv_general_dilated", "convert_element_type", "cummax", "cumsum", "div"),
        *(
            "dot_general",
            "dynamic_slice",
            "dynamic_update_slice",
            "eq",
            "erf",
            "exp",
            "fft",
            "floor",
            "gather",
        ),
        *("gt", "igamma", "igamma_grad_a", "igammac", "integer_pow", "iota", "is_finite", "lgamma", "log"),
        *("logistic", "lu", "lu_pivots_to_permutation", "max", "min", "mul", "neg"),
        *("not", "pad", "pow", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_precision"),
        *(
            "reduce_prod",
            "reduce_sum",
            "reduce_window_sum",
            "regularized_incomplete_beta",
            "reshape",
            "rev",
            "rsqrt",
            "scatter",
        ),
        *("scatter-add", "select_n", "sign", "sin", "slice", "sort", "split", "sqrt", "square", "squeeze"),
        *("stop_gradient", "sub", "tan", "tanh", "top_k", "transpose"),
    }
)

_SHARDS, _SIZELESS = "tests/rules/test_shard_execution.py", "tests/rules/test_catalogue.py"

# Why an operation with a rule is not run on parts, or where else it is checked.
_ROUTED = "not on parts: indices address the whole dim, which XLA masks"
_SIZED = "not on parts: the result's size is a parameter"
_UNCHECKED: Mapping[str, str] = {
    **dict.fromkeys(("scatter-sub", "scatter-mul", "scatter-min", "scatter-max"), _ROUTED),
    **dict.fromkeys(("empty", "tile"), _SIZED),
    "ragged_dot_general": "not on parts: rows belong to groups by their place in the whole",
    "random_bits": "tests/rules/test_random_rules.py",
    "random_gamma": "tests/rules/test_random_rules.py",
}

# What the parts of JAX are for, by a part of the module's name; the first that fits.
_PARTS: Mapping[str, tuple[str, str]] = {
    "lax.parallel": ("manual region", "stands in shard_map only, whose region is kept as it is"),
    "pallas": ("kernel", "stands in the body of a kernel only; the kernel is one opaque call"),
    "hijax": ("on demand", "JAX's experimental types"),
    "sparse": ("on demand", "Shardy's rules of the dense operations it lowers to"),
    "export": ("on demand", "a symbolic shape or an exported program"),
    "state": ("on demand", "a mutable array"),
}
_ON_DEMAND = (
    "on demand",
    "Shardy is asked; where it has no rule: replicated, priced, reported with its line",
)
_MUTABLE = frozenset({"new_ref", "empty_ref", "free_ref", "freeze"})


@dataclass(frozen=True)
class Operation:
    """One primitive.

    Attributes:
        name: its name.
        origin: ``Shardy``, ``hand-written``, ``declared``, ``region``, ``inlined``, ``kept`` (a sharding the
            user wrote), ``opaque``, ``replicated``, ``manual region``, ``kernel`` or ``on demand``.
        rule: the rule of a small sample, or what happens instead.
        checked: the test that runs it on shards, the reason why none does, or ``""`` where nothing is split.
    """

    name: str
    origin: str
    rule: str
    checked: str = ""


def operations() -> tuple[Operation, ...]:
    """Every operation, in alphabetical order."""
    samples, sizeless = sampled_nodes(), _sampled(SIZELESS)
    book = _QuietBook()
    book.prepare(samples.values())
    declared = declared_rules()
    names = sorted({*_primitives(), *samples, *INLINED, *declared})
    return tuple(_operation(name, samples, sizeless, declared, book) for name in names)


def counts(listed: Iterable[Operation]) -> dict[str, int]:
    """How many operations have each origin, the largest first."""
    return dict(Counter(op.origin for op in listed).most_common())


def sampled_nodes() -> Mapping[str, Node]:
    """One node of each operation whose rule can be shown, by name."""
    return _sampled((*SIZELESS, *OTHERS))


def sizeless_nodes() -> tuple[Node, ...]:
    """One node of each operation that is checked by running it on parts as it stands."""
    return tuple(node for name, node in _sampled(SIZELESS).items() if name not in SHARD_CASES)


class _QuietBook(RuleBook):
    """A rule book whose samples are not reported as if they were a user's."""

    def _warn(self, node: Node, text: str) -> None:
        del node, text


def _operation(
    name: str,
    samples: Mapping[str, Node],
    sizeless: Mapping[str, Node],
    declared: Mapping[str, str],
    book: RuleBook,
) -> Operation:
    checked = _SHARDS if name in SHARD_CASES else _SIZELESS if name in sizeless else _UNCHECKED.get(name, "")
    if name in declared:
        return Operation(name, "declared", declared[name], "mw.check_rule")
    if name in samples:
        return _with_rule(samples[name], book, checked)
    if name in OPAQUE:
        return Operation(
            name, "opaque", "replicated, priced, reported; mw.register_rule splits it", "mw.check_rule"
        )
    if name in REGION_PARAMS:
        return Operation(name, "region", "planned through; its body is a nested graph")
    if name in INLINED:
        return Operation(name, "inlined", "its body stands in its place")
    if name in _USER_SHARDINGS:
        return Operation(name, "kept", "the sharding or region the user wrote")
    return Operation(name, *_part(name))


def _with_rule(node: Node, book: RuleBook, checked: str) -> Operation:
    rule = book.rule(node)
    origin = "hand-written" if node.op in MANUAL_RULES else "Shardy"
    if not rule.splittable():
        # Nothing is split, so there is nothing to check.
        shaped = any(v.type.rank for v in (*node.operands, *node.results))
        return Operation(node.op, "replicated" if shaped else origin, str(rule))
    return Operation(node.op, origin, str(rule), checked)


def _part(name: str) -> tuple[str, str]:
    if name in _MUTABLE:
        return _PARTS["state"]
    home = _home(_primitives().get(name, frozenset()))
    return next((what for part, what in _PARTS.items() if part in home), _ON_DEMAND)


def _home(modules: Iterable[str]) -> str:
    """The module that defines a primitive, not one that passes it on: the deepest of JAX's own sources."""
    return max(modules, key=lambda m: (m.startswith("jax._src."), m.count("."), m), default="")


def _primitives() -> dict[str, frozenset[str]]:
    """Names of JAX's primitives and the modules that hold them, without those of other platforms."""
    for module in _MODULES:
        importlib.import_module(module)
    homes: dict[str, set[str]] = {}
    for module_name, module in list(sys.modules.items()):
        if module_name == "jax" or module_name.startswith("jax."):
            for value in list(vars(module).values()):
                if isinstance(value, jax.extend.core.Primitive):
                    homes.setdefault(value.name, set()).add(module_name)
    return {
        name: frozenset(found)
        for name, found in homes.items()
        if not any(platform in home for home in found for platform in _OTHER_PLATFORMS)
    }


def _sampled(programs: Iterable[Sample]) -> dict[str, Node]:
    """One node of each operation in sample programs: of several, the one of most dims."""
    found: dict[str, Node] = {}
    for fun, args in programs:
        for node in walk_nodes(trace_program(fun, TraceOptions(), args, {}).graph):
            if not node.regions and (node.op not in found or _rank(node) > _rank(found[node.op])):
                found[node.op] = node
    return found


def _rank(node: Node) -> int:
    return sum(v.type.rank for v in (*node.operands, *node.results))
