"""A calibrated record is a file that loads: new numbers with their source, the base's with theirs."""

import pytest

from meshwright.cost_models.calibration.record_file import calibrated_document, record_text
from meshwright.cost_models.cluster import Cluster
from meshwright.cost_models.hardware_record import hardware_names, load_hardware, record_document

SOURCE = 'measured on a "device", 8 devices, 2026-12-01, jax 0.10.2, median of 9'
NUMBERS = {"efficiency.memory": 0.654321, "link.inner.alpha_s": 3.45678e-6, "peak_flops.bf16": 8.76543e14}


def calibrated(name, numbers):
    return calibrated_document(record_document(name), numbers, SOURCE, "Title")


@pytest.mark.parametrize("name", hardware_names())
def test_a_record_without_new_numbers_round_trips(name, tmp_path):
    path = tmp_path / "copy.toml"
    path.write_text(record_text(record_document(name)))
    assert record_document(path) == record_document(name)
    assert load_hardware(path).hash == load_hardware(name).hash


@pytest.mark.parametrize("name", hardware_names())
def test_new_numbers_are_written_with_their_source(name, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(record_text(calibrated(name, NUMBERS)))
    document, base = record_document(path), record_document(name)
    assert document["efficiency"]["memory"] == {"value": 0.6543, "source": SOURCE}
    assert document["link"]["inner"]["alpha_s"] == {"value": 3.457e-6, "source": SOURCE}
    assert document["peak_flops"]["bf16"]["source"].startswith(f"{SOURCE}: ")
    assert document["memory"] == base["memory"]
    assert document["version"] == base["version"] + 1
    assert base == record_document(name)


def test_a_cluster_file_takes_it(tmp_path):
    (tmp_path / "mine.toml").write_text(record_text(calibrated("h100", NUMBERS)))
    (tmp_path / "rack.toml").write_text('hardware = "mine.toml"\nshape = [2, 8]\n')
    cluster = Cluster.load(tmp_path / "rack.toml")
    assert cluster.num_devices == 16
    assert cluster.hardware.memory_efficiency == 0.6543
    assert cluster.hardware.inner.alpha_s == 3.457e-6
    assert cluster.hardware.name == "h100"
    assert cluster.hardware.title == "Title"
