"""The comparison: what counts as equal, ill-conditioned or different."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.fuzzing.compare import RTOL, Reference, numbers


def _reference(function, *arguments) -> Reference:
    jitted = jax.jit(function)
    return Reference(jitted, arguments, numbers(jitted(*arguments)), RTOL)


X = jnp.array([1.0, -2.0, 1000.0], jnp.float32)


@pytest.mark.parametrize(
    ("found", "is_equal"),
    [
        ([1.0, -2.0, 1000.0], True),
        ([1.01, -2.0, 1000.0], True),  # 1e-5 of the largest
        ([1.05, -2.0, 1000.0], False),
        ([1.0, -2.0, np.nan], False),
        ([1.0, -2.0, np.inf], False),
    ],
)
def test_real_numbers_within_the_scale_of_the_array(found: list[float], is_equal: bool) -> None:
    text, ill_conditioned = _reference(lambda x: x, X).difference([np.array(found, np.float32)])
    assert (text == "") == is_equal
    assert not ill_conditioned


def test_integers_and_types_must_be_equal() -> None:
    reference = _reference(lambda x: x, jnp.arange(3))
    assert reference.difference([np.array([0, 1, 3], np.int32)])[0].startswith(
        "result 0 int32[3] differs in 1 of 3"
    )
    assert reference.difference([np.array([0, 1, 2], np.int64)])[0] == "result 0 int32[3] is int64[3]"


def test_nan_and_infinity_where_the_reference_has_them_are_equal() -> None:
    reference = _reference(lambda x: jnp.log(x - 1.0), X)
    assert np.isnan(reference.expected[0][1])
    assert np.isneginf(reference.expected[0][0])
    assert reference.difference(list(reference.expected)) == ("", False)


def test_what_a_rounding_of_the_inputs_does_as_well_is_ill_conditioned() -> None:
    reference = _reference(lambda x, y: 1e6 * x - 1e6 * y, X, X)
    assert reference.difference([reference.expected[0] + np.float32(0.5)]) == ("", True)
    assert reference.difference([reference.expected[0] + np.float32(1e5)])[0] != ""


def test_keys_compare_by_their_words() -> None:
    reference = _reference(jax.random.fold_in, jax.random.key(1), jnp.int32(3))
    assert reference.difference(numbers(jax.random.fold_in(jax.random.key(1), 3))) == ("", False)
    assert reference.difference(numbers(jax.random.fold_in(jax.random.key(1), 4)))[0] != ""
