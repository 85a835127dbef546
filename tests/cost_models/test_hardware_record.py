"""Hardware records: the shipped ones load and are sane, broken ones are refused by file and key."""

import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from meshwright.cost_models import hardware_record
from meshwright.cost_models.errors import HardwareRecordError
from meshwright.cost_models.hardware_record import hardware_names, load_hardware

RECORDS = Path(hardware_record.__file__).resolve().parent / "hardware"
SHIPPED = ("a100", "b200", "cpu", "h100", "h200", "v4", "v5e", "v5p", "v6e")


def _edited(tmp_path: Path, old: str, new: str) -> Path:
    text = (RECORDS / "h100.toml").read_text()
    assert old in text
    path = tmp_path / "edited.toml"
    path.write_text(text.replace(old, new, 1))
    return path


def test_all_shipped_records_are_listed():
    assert hardware_names() == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_record_loads_and_is_consistent(name):
    hardware = load_hardware(name)
    assert hardware.name == name
    assert 0.5 * hardware.total_memory_bytes < hardware.usable_memory_bytes <= hardware.total_memory_bytes
    assert hardware.peak_flops("float64") <= hardware.peak_flops("float32") <= hardware.peak_flops("bfloat16")
    assert hardware.outer.achieved_bandwidth < hardware.inner.achieved_bandwidth < hardware.memory_bandwidth
    assert hardware.inner.alpha_s <= hardware.outer.alpha_s
    assert (hardware.torus is not None) == (hardware.kind == "tpu")


@pytest.mark.parametrize("name", SHIPPED)
def test_every_number_has_a_source_that_names_something(name):
    document = tomllib.loads((RECORDS / f"{name}.toml").read_text())
    sources = [entry["source"] for entry in _entries(document)]
    assert len(sources) >= 24
    assert all(len(source) > 15 and " " in source for source in sources)


def _entries(table):
    for value in table.values():
        if isinstance(value, dict):
            yield from [value] if "value" in value else _entries(value)


def test_dtype_names_map_to_rates():
    h100 = load_hardware("h100")
    assert h100.peak_flops("bfloat16") == 989.5e12
    assert h100.peak_flops("float32") == 494.5e12
    assert h100.peak_flops("f32") == 67e12
    assert h100.peak_flops("float8_e4m3fn") == 1979e12
    assert h100.peak_flops("int32") == h100.vector_flops
    assert h100.peak_flops("key<fry>") == h100.vector_flops


def test_hash_covers_numbers_only(tmp_path):
    h100 = load_hardware("h100")
    reworded = load_hardware(_edited(tmp_path, "H100 SXM: NVLink", "H100 SXM5, row NVLink"))
    retitled = load_hardware(_edited(tmp_path, 'title = "NVIDIA', 'title = "Nvidia'))
    changed = load_hardware(_edited(tmp_path, "bandwidth = {value = 3.35e12", "bandwidth = {value = 3.36e12"))
    assert reworded.hash == retitled.hash == h100.hash
    assert changed.hash != h100.hash
    assert replace(h100, version=2).hash != h100.hash


def test_hash_is_the_same_in_another_process():
    code = (
        "from meshwright.cost_models.hardware_record import load_hardware; print(load_hardware('v5e').hash)"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == load_hardware("v5e").hash


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("usable_bytes = {value = 76_448_000_000", "usable_bytes = {value = -1", "memory.usable_bytes"),
        ("usable_bytes = {value = 76_448_000_000", "usable_bytes = {value = 0", "memory.usable_bytes"),
        ("usable_bytes = {value = 76_448_000_000", "usable_bytes = {value = 90_000_000_000", "exceeds"),
        ("usable_bytes = {value = 76_448_000_000", "usable_bytes = {value = 1.5", "whole number"),
        (
            "usable_bytes = ",
            "usable_byte = ",
            "missing key memory.usable_bytes; unknown key memory.usable_byte",
        ),
        ("matmul = {value = 0.75", "matmul = {value = 1.2", "efficiency.matmul must be a fraction"),
        ("matmul = {value = 0.75", "matmul = {value = nan", "efficiency.matmul"),
        ("matmul = {value = 0.75", "matmul = {value = true", "efficiency.matmul"),
        ("f64 = {value = 6.7e13", "f64 = {volume = 6.7e13", "peak_flops.f64"),
        ('kind = "gpu"', 'kind = "abacus"', "kind must be one of"),
        ("version = 1", "version = 0", "version"),
        ("[64, 64, 32]", "[64, 64]", "kernel.matmul_tile"),
        ('name = "h100"\n', "", "missing key name"),
        ("[memory]", "[memory", "not valid TOML"),
    ],
)
def test_broken_records_are_refused_by_file_and_key(tmp_path, old, new, message):
    path = _edited(tmp_path, old, new)
    with pytest.raises(HardwareRecordError) as caught:
        load_hardware(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_all_problems_are_reported_at_once(tmp_path):
    path = tmp_path / "poor.toml"
    path.write_text('name = "poor"\nkind = "gpu"\ntitle = "x"\nversion = 1\n[memory]\ntotal_bytes = 5\n')
    with pytest.raises(HardwareRecordError) as caught:
        load_hardware(path)
    assert len(caught.value.problems) > 20
    assert any("memory.total_bytes must be written" in problem for problem in caught.value.problems)


def test_missing_source_is_refused(tmp_path):
    path = _edited(tmp_path, 'source = "DGX H100 data sheet: 8 GPUs per system"', 'source = " "')
    with pytest.raises(HardwareRecordError, match=r"host\.devices has no source"):
        load_hardware(path)


def test_missing_file_is_named():
    with pytest.raises(
        HardwareRecordError, match=r"nowhere\.toml cannot be read|nowhere\.toml: cannot be read"
    ):
        load_hardware("nowhere.toml")
