"""Makes an opaque call on parts of its operands: the same kernel, foreign function or callback, smaller.

A traced call holds the shapes of its whole arrays. For callbacks and foreign functions these are the results'
alone; a Pallas kernel also holds a grid (``pallas_grid``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
from jax.experimental.layout import Layout, with_layout_constraint
from jax.sharding import AbstractMesh, Mesh, PartitionSpec

from ..errors import ArgumentError, UnsupportedError
from ..ir import Node
from ..jax_compat import bind, no_context_mesh
from .declared import OPAQUE, declaration_of
from .factor import FactorRule, TensorFactors
from .pallas_grid import Shapes, pallas_params, resized

# Known to XLA's partitioner, which yet lets devices wait for each other: see ``_is_partitioned_badly``.
_TAKEN_ONE_BY_ONE = frozenset(
    {"top_k", "fft", "igamma", "igammac", "igamma_grad_a", "regularized_incomplete_beta"}
)
_CALLBACKS = frozenset({"pure_callback", "io_callback"})


def bind_local(node: Node, operands: Sequence[Any], results: Shapes) -> list[Any]:
    """Makes a call again on parts of its operands.

    Args:
        node: the call as traced on whole arrays.
        operands: the parts.
        results: shapes of the parts of its results.

    Returns:
        The parts of the results.

    Raises:
        UnsupportedError: where the call cannot be made smaller, with the reason.
    """
    return bind(node.primitive, operands, local_params(node, [x.shape for x in operands], results))


def local_params(node: Node, operands: Shapes, results: Shapes) -> dict[str, Any]:
    """A call's parameters for arrays of other shapes.

    Raises:
        UnsupportedError: where the call cannot be made smaller, with the reason.
    """
    whole = [v.type.shape for v in (*node.operands, *node.results)]
    if whole == [tuple(shape) for shape in (*operands, *results)]:
        return dict(node.params)
    if node.op == "pallas_call":
        return pallas_params(node, operands, results)
    if node.op == "ffi_call" or node.op in _CALLBACKS:
        return {**node.params, "result_avals": resized(node.params["result_avals"], results)}
    if node.op == "conv_general_dilated":
        return _convolution_params(node, operands)
    if node.op == "custom_partitioning":
        raise UnsupportedError(f"{node.op} is split by its own partitioning, not by remaking the call.")
    return dict(node.params)


def planned_call(
    node: Node, mesh: Mesh | AbstractMesh, specs: Sequence[Any], operands: Sequence[Any]
) -> list[Any] | None:
    """Makes a call on parts as planned, where the partitioner would gather, or refuse a kernel.

    Args:
        node: any node.
        mesh: the devices.
        specs: the planned ``PartitionSpec`` of each operand, then of each result.
        operands: the whole arrays, under a ``jit`` trace.

    Returns:
        The whole results; None where the partitioner is to make the call: operations it knows, those that
        bring their own partitioning, and callbacks without a rule, which are to run once.

    Raises:
        UnsupportedError: where the call cannot be made on such parts.
    """
    contracted = _contracted_axes(specs, len(node.operands))
    if _is_partitioned_badly(node, specs, contracted):
        return sharded_call(node, contracted, mesh, specs, operands)
    rule = _declared_rule(node)
    if node.op not in OPAQUE or node.op == "custom_partitioning" or (rule is None and node.op in _CALLBACKS):
        return None
    summed = reduced_axes(rule, specs[: len(node.operands)]) if rule else ()
    return sharded_call(node, summed, mesh, specs, operands)


def _is_partitioned_badly(node: Node, specs: Sequence[Any], contracted: Sequence[str]) -> bool:
    """Whether XLA's partitioner (jaxlib 0.10.2) does not make an operation as planned though it knows it.

    It gathers operands of ``top_k`` and ``fft`` even along dims that are taken one by one, and has the loops
    inside the incomplete gamma and beta functions agree on every iteration. The contraction of a convolution
    with batch groups (the kernel's gradient of a depthwise one) it sums over all devices, also those that
    hold the same parts, so that the result comes out multiplied; one with feature groups it may cut within
    them.
    """
    if node.op in _TAKEN_ONE_BY_ONE:
        return node.op == "fft" or any(any(spec) for spec in specs)
    return node.op == "conv_general_dilated" and bool(contracted) and _is_grouped(node)


def _contracted_axes(specs: Sequence[Any], num_operands: int) -> tuple[str, ...]:
    """Mesh axes that split operands and no result."""
    read = {axis: None for spec in specs[:num_operands] for entry in spec for axis in _axes(entry)}
    kept = {axis for spec in specs[num_operands:] for entry in spec for axis in _axes(entry)}
    return tuple(axis for axis in read if axis not in kept)


def _convolution_params(node: Node, operands: Shapes) -> dict[str, Any]:
    """A convolution's parameters where its groups are split, which are major to the features in each."""
    numbers, params = node.params["dimension_numbers"], dict(node.params)
    split = {"feature_group_count": (0, numbers.lhs_spec[1]), "batch_group_count": (1, numbers.rhs_spec[0])}
    for name, (side, dim) in split.items():
        if params[name] > 1:
            parts = node.operands[side].type.shape[dim] // operands[side][dim]
            params[name] = max(params[name] // parts, 1)
    return params


def _is_grouped(node: Node) -> bool:
    return node.params["batch_group_count"] > 1 or node.params["feature_group_count"] > 1


def _declared_rule(node: Node) -> FactorRule | None:
    declaration = declaration_of(node)
    try:
        return declaration.apply(node) if declaration else None
    except ArgumentError:
        # Reported when the program was planned, which then took the call as one without a rule.
        return None


def sharded_call(
    node: Node,
    summed: tuple[str, ...],
    mesh: Mesh | AbstractMesh,
    specs: Sequence[Any],
    operands: Sequence[Any],
) -> list[Any]:
    """Makes a call on every device's part of its operands.

    Args:
        node: the call.
        summed: mesh axes over which the devices' results are summed.
        mesh: the devices.
        specs: the ``PartitionSpec`` of each operand, then of each result, as a strategy of the rule has them.
        operands: the whole arrays, under a ``jit`` trace.

    Returns:
        The whole results.

    Raises:
        UnsupportedError: where the call cannot be made on such parts.
    """
    count = len(node.operands)
    results = [_part(v.type.shape, s, mesh) for v, s in zip(node.results, specs[count:], strict=True)]

    def part(*parts: Any) -> list[Any]:
        if node.op == "fft" and _runs_on_cpu(mesh):
            # XLA may give the operand the layout of a gather beside it, and then refuses to run the FFT.
            parts = tuple(map(_row_major, parts))
        made = bind_local(node, parts, results)
        return [jax.lax.psum(x, summed) for x in made] if summed else made

    # A kernel's results carry no record of the axes they vary over, so there is nothing to check them by.
    call = jax.shard_map(
        part, mesh=mesh, in_specs=tuple(specs[:count]), out_specs=list(specs[count:]), check_vma=False
    )
    with no_context_mesh():
        return call(*operands)


def _row_major(array: Any) -> Any:
    return with_layout_constraint(array, Layout(tuple(range(array.ndim))))


def reduced_axes(rule: FactorRule, specs: Sequence[Any]) -> tuple[str, ...]:
    """The mesh axes that split reduced factors, given the operands' specs."""
    found: dict[str, None] = {}
    for tensor, spec in zip(rule.operands, specs, strict=True):
        for dim, entry in zip(tensor, spec, strict=False):
            if any(f in rule.reduced for f in dim):
                found.update(dict.fromkeys(_axes(entry)))
    return tuple(found)


def _axes(entry: Any) -> tuple[str, ...]:
    if entry is None:
        return ()
    return (entry,) if isinstance(entry, str) else tuple(entry)


def _runs_on_cpu(mesh: Mesh | AbstractMesh) -> bool:
    return isinstance(mesh, Mesh) and mesh.devices.flat[0].platform == "cpu"


def _part(shape: tuple[int, ...], spec: PartitionSpec, mesh: Mesh | AbstractMesh) -> tuple[int, ...]:
    sizes = list(shape)
    for dim, entry in enumerate(spec):
        for axis in _axes(entry):
            sizes[dim] //= mesh.shape[axis]
    return tuple(sizes)


def possible_rule(node: Node, rule: FactorRule) -> FactorRule:
    """The rule with factors cut down to what the call can be made on: whole blocks of a Pallas kernel.

    A factor of 64 rows in blocks of 8 becomes one of 8, which can be split, and one of 8, which cannot. A
    callback's reduced factors stay whole: on the CPU, devices that wait in the sum after it may hold all the
    threads that another device's callback needs, for ever.
    """
    if node.op in _CALLBACKS:
        return dataclasses.replace(rule, reduced=frozenset(), fixed=rule.fixed | rule.reduced)
    if node.op != "pallas_call":
        return rule
    sizes, fixed = list(rule.sizes), set(rule.fixed)
    refined: dict[int, tuple[int, ...]] = {}
    for factor in rule.splittable():
        parts = _most_parts(node, rule, factor)
        if parts == 1:
            fixed.add(factor)
        elif parts < rule.sizes[factor]:
            refined[factor] = (factor, len(sizes))
            fixed.add(len(sizes))
            sizes.append(sizes[factor] // parts)
            sizes[factor] = parts

    def tensor(dims: TensorFactors) -> TensorFactors:
        return tuple(tuple(g for f in dim for g in refined.get(f, (f,))) for dim in dims)

    return FactorRule(
        tuple(sizes),
        tuple(map(tensor, rule.operands)),
        tuple(map(tensor, rule.results)),
        rule.reduced - fixed,
        frozenset(fixed),
    )


def part_shapes(node: Node, rule: FactorRule, factor: int, parts: int) -> tuple[Shapes, Shapes]:
    """Shapes of operands and results on one device where a factor is split.

    Args:
        node: the call.
        rule: its rule.
        factor: the factor.
        parts: into how many parts.
    """

    def side(values: Sequence[Any], tensors: Sequence[TensorFactors]) -> Shapes:
        return [
            tuple(size // parts if factor in dim else size for size, dim in zip(v.type.shape, t, strict=True))
            for v, t in zip(values, tensors, strict=True)
        ]

    return side(node.operands, rule.operands), side(node.results, rule.results)


def _most_parts(node: Node, rule: FactorRule, factor: int) -> int:
    """Into how many parts a factor can be cut: what works for a number works for its divisors."""
    size = rule.sizes[factor]
    for parts in (n for n in range(size, 1, -1) if size % n == 0):
        try:
            local_params(node, *part_shapes(node, rule, factor, parts))
        except UnsupportedError:
            continue
        return parts
    return 1
