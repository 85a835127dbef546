"""The zoo's page: rows from parallel workers, one order, no change without cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.zoo.report import render, rounded
from tests.zoo.rows import Row, load_rows, save_row


def test_rows_are_read_back_in_one_order(tmp_path: Path) -> None:
    rows = [Row("b", "second"), Row("a", "later"), Row("a", "first", plan_s=1.3, equal=True)]
    for row in rows:
        save_row(row, tmp_path)
    assert load_rows(tmp_path) == [rows[2], rows[1], rows[0]]


def test_a_row_replaces_its_predecessor(tmp_path: Path) -> None:
    save_row(Row("a", "model", reason="no"), tmp_path)
    save_row(Row("a", "model", equal=True), tmp_path)
    assert load_rows(tmp_path) == [Row("a", "model", equal=True)]


def test_page_counts_and_gives_reasons() -> None:
    page = render([Row("a", "x", equal=True, plan_s=1.1), Row("b", "y", reason="ValueError: p | q")])
    assert "2 models: 1 equal, 1 not yet." in page
    assert "Of these, 0 are packages' own code in 0 packages." in page
    assert "**no**: ValueError: p \\| q" in page


def test_page_says_whose_code_and_which_kind() -> None:
    page = render([Row("a", "x", True, "U-Net"), Row("a", "y", False, "U-Net"), Row("b", "z", True)])
    assert "Of these, 2 are packages' own code in 2 packages." in page
    assert "| a | x | own |" in page
    assert "| a | y | layers |" in page
    assert "| U-Net | a: x | a: y |" in page
    assert "| diffusion | - | - |" in page


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.0, "-"), (0.04, "0.1 s"), (0.9, "1 s"), (2.8, "2 s"), (41.0, "50 s")]
)
def test_seconds_are_rounded(seconds: float, shown: str) -> None:
    assert rounded(seconds) == shown
