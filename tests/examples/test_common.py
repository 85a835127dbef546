"""What the examples share: data, batches and the verdict on two runs."""

import math
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture(scope="module")
def common(load_example: Callable[[str], ModuleType]) -> ModuleType:
    return load_example("common")


def test_text_is_split_and_repeatable(common: ModuleType) -> None:
    train, held_out = common.stdlib_text(400_000)
    assert len(train) > 5 * len(held_out) > 0
    assert len(train) + len(held_out) <= 400_000
    common.stdlib_text.cache_clear()
    again = common.stdlib_text(400_000)
    np.testing.assert_array_equal(train, again[0])


def test_targets_are_the_next_inputs(common: ModuleType) -> None:
    text = np.arange(200, dtype=np.uint8)
    batches = common.text_batches(text, batch=3, length=7, count=4, seed=0)
    assert len(batches) == 4
    for batch in batches:
        assert batch["inputs"].shape == batch["targets"].shape == (3, 7)
        np.testing.assert_array_equal(batch["inputs"] + 1, batch["targets"])


def test_digits_are_split_once(common: ModuleType) -> None:
    train, held_out = common.digits()
    assert (len(train["label"]), len(held_out["label"])) == (1500, 297)
    assert train["image"].min() == -1 and train["image"].max() == 1
    assert set(held_out["label"]) == set(range(10))


@pytest.mark.parametrize(
    ("at", "factor", "same"),
    [
        (0, 1.0, True),
        (3, 1 + 1e-6, True),
        (3, 1 + 1e-4, False),
        (30, 1.5, True),
        (39, 1.01, False),
        (3, math.nan, False),
    ],
)
def test_verdict_on_two_runs(common: ModuleType, at: int, factor: float, same: bool) -> None:
    """Early steps are held tightly, the last one loosely, and the middle is only reported."""
    losses = [5.0 - 0.1 * i for i in range(40)]
    other = [loss * factor if i == at else loss for i, loss in enumerate(losses)]
    runs = [common.Run(name, tuple(values), 1.0, None) for name, values in (("a", losses), ("b", other))]
    assert common.agree(*runs) is same


def test_results_are_part_of_the_verdict(common: ModuleType) -> None:
    run = common.Run("a", (2.0, 1.0), 1.0, None)
    assert common.agree(run, run, [("held-out loss", 1.0, 1.0)])
    assert not common.agree(run, run, [("held-out loss", 1.0, 1.1)])
