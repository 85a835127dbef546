"""The benchmarks' measuring and reporting."""

import json
import os
from dataclasses import dataclass

import pytest

from benchmarks.measure import cpu_s, in_child, median, median_interval, peak_rss_mib
from benchmarks.report import format_cell, report


@dataclass(frozen=True)
class Row:
    name: str
    num_edges: int
    budget_mib: float | None
    solve_s: float


ROWS = [Row("a", 1234, None, 1.23456), Row("b", 2, 512.4, 0.5)]


def _environment() -> tuple[int, str]:
    print("not a row")
    return os.getpid(), os.environ["XLA_FLAGS"]


def _rise_of_peak_mib(size_mib: int) -> float:
    before_mib = peak_rss_mib()
    held = bytearray(size_mib * 2**20)
    del held
    return peak_rss_mib() - before_mib


def _fail() -> None:
    raise ValueError("from the child")


def _num_devices() -> int:
    import jax

    return len(jax.devices())


def test_json_is_a_list_of_the_rows_fields(capsys: pytest.CaptureFixture[str]) -> None:
    report("title", ROWS, as_json=True)
    assert json.loads(capsys.readouterr().out) == [
        {"name": "a", "num_edges": 1234, "budget_mib": None, "solve_s": 1.23456},
        {"name": "b", "num_edges": 2, "budget_mib": 512.4, "solve_s": 0.5},
    ]


def test_a_table_shows_every_cell_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    report("title", ROWS, as_json=False)
    shown = capsys.readouterr().out
    assert all(cell in shown.split() for cell in ("a", "1,234", "-", "1.23", "b", "512", "0.50"))


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("gap", 0.0123, "1.2e-02"),
        ("is_donated", True, "yes"),
        ("ratio", 1.03456, "1.035"),
        ("x_us", 2.0, "2.0"),
    ],
)
def test_cells(name: str, value: object, text: str) -> None:
    assert format_cell(name, value) == text


def test_cpu_time_grows_with_work() -> None:
    start_s = cpu_s()
    sum(range(2_000_000))
    assert cpu_s() > start_s


def test_peak_memory_includes_what_was_freed() -> None:
    assert in_child(_rise_of_peak_mib, 256) == pytest.approx(256, rel=0.2)


def test_a_child_is_another_process_with_its_own_devices_and_a_silent_output(
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = os.environ.get("XLA_FLAGS")
    pid, flags = in_child(_environment, devices=3)
    assert pid != os.getpid()
    assert flags.count("xla_force_host_platform_device_count") == 1
    assert os.environ.get("XLA_FLAGS") == before
    assert capfd.readouterr().out == ""


def test_a_childs_device_count_is_the_one_asked_for() -> None:
    assert in_child(_num_devices, devices=3) == 3


def test_a_childs_error_reaches_the_parent() -> None:
    with pytest.raises(ValueError, match="from the child"):
        in_child(_fail)


def test_the_median_and_its_interval() -> None:
    values = [float(i) for i in range(100)]
    assert median(values) == 49.5
    assert median_interval(values) == (40.0, 60.0)
    assert median_interval([3.0, 1.0]) == (1.0, 3.0)
