"""All operations that a program can be made of, and how often each is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import contractions, control, elementwise, indexing, movement, reductions
from .scope import NotHere, Scope

_TRIES = 30


@dataclass(frozen=True)
class Entry:
    """One kind of operation.

    Attributes:
        draw: adds one to a scope.
        weight: how often it is drawn, relative to others.
        has_gradient: whether it may stand where reverse derivatives are taken.
    """

    draw: Callable[[Scope], None]
    weight: int = 2
    has_gradient: bool = True


CATALOGUE = (
    Entry(elementwise.smooth, 8),
    Entry(elementwise.keeping),
    Entry(elementwise.rounding),
    Entry(elementwise.cube, 1),
    Entry(elementwise.add, 4),
    Entry(elementwise.multiply, 4),
    Entry(elementwise.smooth_pair),
    Entry(elementwise.extremum),
    Entry(elementwise.compare),
    Entry(elementwise.is_finite, 1),
    Entry(elementwise.select, 3),
    Entry(elementwise.clamp, 1),
    Entry(elementwise.integer, 4),
    Entry(elementwise.boolean),
    Entry(elementwise.to_integer),
    Entry(elementwise.to_real),
    Entry(elementwise.through_bfloat16, 1),
    Entry(elementwise.bits_of, 1),
    Entry(elementwise.make_complex, 1),
    Entry(elementwise.complex_product),
    Entry(elementwise.from_complex),
    Entry(reductions.total, 4),
    Entry(reductions.extreme),
    Entry(reductions.product, 1),
    Entry(reductions.softmax),
    Entry(reductions.position),
    Entry(reductions.integer_total),
    Entry(reductions.running, 3),
    Entry(reductions.associative, 1),
    Entry(reductions.sort),
    Entry(reductions.sort_pairs),
    Entry(reductions.order),
    Entry(reductions.largest),
    Entry(reductions.window),
    Entry(movement.reshape, 4),
    Entry(movement.transpose, 3),
    Entry(movement.broadcast),
    Entry(movement.squeeze),
    Entry(movement.expand, 1),
    Entry(movement.cut),
    Entry(movement.pad),
    Entry(movement.reverse, 1),
    Entry(movement.join, 3),
    Entry(movement.split),
    Entry(movement.roll),
    Entry(movement.repeat, 1),
    Entry(movement.diagonal, 1),
    Entry(movement.copy, 1),
    Entry(indexing.dynamic_slice),
    Entry(indexing.dynamic_update_slice),
    Entry(indexing.take),
    Entry(indexing.take_along),
    Entry(indexing.pairs),
    Entry(indexing.scatter_set),
    Entry(indexing.scatter_add, 3),
    Entry(indexing.segments, 1),
    Entry(indexing.one_hot),
    Entry(indexing.counter, 1),
    Entry(indexing.random_bits, 3),
    Entry(indexing.random_numbers, 3),
    Entry(indexing.permutation, 1),
    Entry(contractions.dot, 5),
    Entry(contractions.matmul, 5),
    Entry(contractions.low_precision, 1),
    Entry(contractions.attention, 3),
    Entry(contractions.convolution, 4),
    Entry(contractions.fourier),
    Entry(contractions.cholesky),
    Entry(contractions.solve),
    Entry(contractions.outer, 1),
    Entry(control.scan, 5),
    Entry(control.counted_loop),
    Entry(control.open_loop, 2, has_gradient=False),
    Entry(control.condition),
    Entry(control.switch),
    Entry(control.recomputed),
    Entry(control.nested_jit, 1),
    Entry(control.vectorized, 3),
    Entry(control.inner_gradient),
)


def draw_op(scope: Scope) -> None:
    """Adds one operation that fits what the scope has; one that needs helpers adds those as well."""
    entries = [e for e in CATALOGUE if e.has_gradient or not scope.is_gradient]
    weights = [e.weight for e in entries]
    for _ in range(_TRIES):
        entry = scope.rng.choices(entries, weights)[0]
        try:
            entry.draw(scope)
        except NotHere:
            continue
        return
    elementwise.smooth(scope)
