"""Rules that users declare for calls nobody can see into: Pallas kernels, foreign functions, callbacks.

A declaration is einsum-like: ``"b s h, h d -> b s d"`` names the factors of each dim, dims separated by
spaces and tensors by commas. ``(b s)`` is a dim of several factors, major first; ``_`` is a dim that must not
be split; ``1`` is a dim of size one. A factor that stands in operands only is a sum over its parts if it is
named in ``reduced``, and is otherwise needed whole, as is a factor that stands in results only.

``custom_partitioning`` brings a declaration of its own, its ``sharding_rule``, which is read the same way.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import jax.extend.core

from ..errors import ArgumentError
from ..ir import Node
from .declaration import Declaration
from .declaration_text import TensorNames, parse_declaration

OPAQUE = frozenset({"pallas_call", "ffi_call", "custom_partitioning", "pure_callback", "io_callback"})

# Single elements of a batch that ``custom_partitioning`` writes as a leading ellipsis.
_ELLIPSIS = "…"


_LOCK = threading.Lock()
_DECLARED: dict[tuple[str, str], Declaration] = {}
_BUILT_IN = frozenset(
    p.name for p in vars(jax.extend.core.primitives).values() if isinstance(p, jax.extend.core.Primitive)
)


def register_rule(target: Any, declaration: str, *, reduced: str = "", fixed: str = "", **sizes: int) -> None:
    """Declares how an opaque call may be split; calls without a declaration run whole on every device.

    A second declaration for the same target replaces the first. It holds for what is traced from now on.

    Args:
        target: a primitive, or a name: of a Pallas kernel, of an FFI target, of a callback's function, or of
            a primitive that is not JAX's own. JAX's own primitives are given as objects.
        declaration: the factors of each dim: ``"b s h, h d -> b s d"``. ``(b s)`` is a dim of several
            factors, major first; ``_`` a dim that must not be split; ``1`` a dim of size one.
        reduced: factors, separated by spaces, whose parts are summed; they stand in no result.
        fixed: factors that must not be split.
        **sizes: sizes of factors that the shapes do not say: ``b=4``.

    Raises:
        ArgumentError: where the declaration cannot be read, with the position, or the target is neither a
            name nor a primitive.

    Example:
        ``mw.register_rule("flash_attention", "b h s d, b h t d, b h t d -> b h s d", fixed="s")``
    """
    keys = _keys(target)
    made = _declaration(declaration, reduced, fixed, sizes)
    with _LOCK:
        _DECLARED.update(dict.fromkeys(keys, made))


def unregister_rule(target: Any) -> None:
    """Takes a declaration back.

    Raises:
        ArgumentError: where the target has none.
    """
    keys = _keys(target)
    with _LOCK:
        found = [_DECLARED.pop(key, None) for key in keys]
    if not any(found):
        raise ArgumentError(f"{target!r} has no declared rule.")


def declared_rules() -> dict[str, str]:
    """Every declaration by the name of its target."""
    with _LOCK:
        return {name: str(declaration) for (_, name), declaration in sorted(_DECLARED.items())}


def declaration_of(node: Node) -> Declaration | None:
    """The declaration that holds for a node, if any: that of its name, else of its primitive."""
    if _DECLARED:
        names = (("call", call_name(node)), ("primitive", node.op))
        found = next((_DECLARED[key] for key in names if key in _DECLARED), None)
        if found is not None:
            return found
    return _own_declaration(node) if node.op == "custom_partitioning" else None


def call_name(node: Node) -> str:
    """The name a user gave an opaque call; ``""`` for other operations."""
    if node.op == "pallas_call":
        described = node.params.get("name_and_src_info")
        return str(node.params.get("name") or getattr(described, "name", None) or "")
    if node.op == "ffi_call":
        return str(node.params["target_name"])
    if node.op in ("pure_callback", "io_callback"):
        function = getattr(node.params["callback"], "callback_func", node.params["callback"])
        return getattr(function, "__name__", "")
    return ""


def _keys(target: Any) -> list[tuple[str, str]]:
    if isinstance(target, jax.extend.core.Primitive):
        return [("primitive", target.name)]
    if not isinstance(target, str) or not target:
        raise ArgumentError(f"{target!r} is neither a name nor a primitive.")
    # A kernel may be called "add"; the primitive of that name has a rule of its own.
    built_in = target in _BUILT_IN and target not in OPAQUE
    return [("call", target)] if built_in else [("call", target), ("primitive", target)]


def _declaration(text: str, reduced: str, fixed: str, sizes: Mapping[str, int]) -> Declaration:
    operands, results = parse_declaration(text)
    made = {name for tensor in results for dim in tensor for name in dim}
    known = made | {name for tensor in operands for dim in tensor for name in dim}
    chosen = {title: frozenset(names.split()) for title, names in (("reduced", reduced), ("fixed", fixed))}
    problems = [
        f"{title} names {name}, which stands in no operand and no result"
        for title, names in (*chosen.items(), ("a size", frozenset(sizes)))
        for name in sorted(names - known)
    ]
    problems += [f"{n} is reduced but stands in a result" for n in sorted(chosen["reduced"] & made)]
    problems += [f"{n} is both reduced and fixed" for n in sorted(chosen["reduced"] & chosen["fixed"])]
    problems += [f"{n}={s!r} is no size" for n, s in sizes.items() if not isinstance(s, int) or s < 1]
    if problems:
        raise ArgumentError(f"the rule {text!r} is wrong: {'; '.join(problems)}.")
    return Declaration(text, operands, results, **chosen, sizes=tuple(sorted(sizes.items())))


def _own_declaration(node: Node) -> Declaration | None:
    """The ``sharding_rule`` of a ``custom_partitioning``; its ellipsis stands for the leading dims left."""
    rule = node.params.get("sharding_rule")
    if rule is None:
        return None
    if isinstance(rule, str):
        return _declaration(rule, "", "", {})
    operands = _mapped(rule.operand_mappings, [o.type.rank for o in node.operands])
    results = _mapped(rule.result_mappings, [r.type.rank for r in node.results])
    fixed = (*rule.need_replication_factors, *rule.permutation_factors)
    sizes = tuple(sorted(rule.factor_sizes.items()))
    return Declaration(
        str(rule), operands, results, frozenset(rule.reduction_factors), frozenset(fixed), sizes
    )


def _mapped(mappings: Any, ranks: list[int]) -> tuple[TensorNames, ...]:
    return tuple(_expanded(tuple(m), rank) for m, rank in zip(mappings, ranks, strict=False))


def _expanded(mapping: tuple[Any, ...], rank: int) -> TensorNames:
    dims = tuple((dim,) if isinstance(dim, str) else tuple(dim) for dim in mapping)
    if dims and dims[0][0].startswith(_ELLIPSIS):
        group, rest = dims[0][0], dims[1:]
        return (*((f"{group}.{i}",) for i in range(rank - len(rest))), *rest)
    return dims
