"""``calibrate`` and ``compare`` on the virtual devices: structure and sense, never timing."""

import json
import math
import re

import jax
import pytest

import meshwright as mw
from meshwright.cost_models.hardware_record import record_document
from meshwright.runtime.calibration import calibrate as runtime
from meshwright.runtime.calibration import measure

SOURCE = re.compile(r"measured on cpu, 8 devices, \d{4}-\d\d-\d\d, jax [\w.]+, median of 3(: .*)?")


@pytest.fixture(scope="module")
def calibrated(cli, tmp_path_factory):
    """A record calibrated by the command, and what the command printed as JSON."""
    path = tmp_path_factory.mktemp("calibrated") / "mine.toml"
    result = cli("calibrate", "-o", str(path), "--quick", "--json")
    assert result.exit_code == 0, result.stderr
    return path, json.loads(result.stdout)


@pytest.fixture
def instant(monkeypatch):
    """No measuring: every point takes what the record says."""

    def measured(point, cluster):
        return measure.Measurement(point, measure.predicted_s(point, cluster), 3)

    monkeypatch.setattr(measure._Runner, "measure", lambda self, point: measured(point, self._cluster))


def test_fitted_numbers_say_how_they_were_measured(calibrated):
    path, _ = calibrated
    document, base = record_document(path), record_document("cpu")
    fitted = ("memory", "efficiency"), ("floor_s", "kernel"), ("alpha_s", "link"), ("matmul", "efficiency")
    for name, section in fitted:
        table = document[section]["inner"] if section == "link" else document[section]
        assert SOURCE.fullmatch(table[name]["source"])
        assert table[name]["value"] > 0
    assert document["link"]["outer"] == base["link"]["outer"]
    assert document["peak_flops"]["f64"] == base["peak_flops"]["f64"]
    assert document["memory"]["total_bytes"] == base["memory"]["total_bytes"]


def test_json_has_numbers_and_measurements(calibrated):
    _, printed = calibrated
    assert printed["base"] == "cpu"
    assert printed["devices"] == 8
    assert printed["collectives_measured"]
    assert {"kernel.floor_s", "efficiency.memory", "link.inner.alpha_s"} <= printed["numbers"].keys()
    assert all(entry["fitted"] > 0 < entry["base"] for entry in printed["numbers"].values())
    assert 0 < len(printed["measurements"]) <= printed["planned"]
    assert all(m["seconds"] > 0 for m in printed["measurements"])


def test_compare_takes_a_cluster_of_the_record(cli, calibrated):
    path, _ = calibrated
    cluster = path.with_name("rack.toml")
    cluster.write_text(f'hardware = "{path.name}"\nshape = [1, 8]\n')
    assert mw.Cluster.load(cluster).hardware.version == 2
    result = cli("compare", "--cluster", str(cluster), "--quick", "--json")
    assert result.exit_code == 0, result.stderr
    printed = json.loads(result.stdout)
    assert printed["cluster"] == "rack"
    ratios = [row["ratio"] for row in printed["rows"]]
    assert all(row["predicted_s"] > 0 < row["measured_s"] for row in printed["rows"])
    assert min(ratios) <= printed["median_ratio"] <= max(ratios)
    assert printed["worst_ratio"] == max(ratios, key=lambda ratio: abs(math.log(ratio)))


def test_tables_for_a_person(cli, instant, tmp_path):
    text = cli("calibrate", "-o", str(tmp_path / "mine.toml"), "--quick").stdout
    assert "efficiency.matmul" in text
    assert 'hardware = "mine.toml", shape = [1, 8]' in text
    text = cli("compare", "--quick").stdout
    assert "all-reduce 8" in text
    assert "cpu:8: median ratio 1; worst" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_base_file_calibrates_again(cli, instant, tmp_path):
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    assert cli("calibrate", "-o", str(first), "--quick").exit_code == 0
    assert cli("calibrate", "-o", str(second), "--base", str(first), "--quick").exit_code == 0
    before, after = record_document(first), record_document(second)
    assert (after["version"], after["title"]) == (before["version"] + 1, before["title"])


def test_one_device_keeps_the_links_and_says_so(cli, instant, tmp_path, monkeypatch):
    one = jax.devices()[:1]
    monkeypatch.setattr(jax, "devices", lambda *_: one)
    path = tmp_path / "one.toml"
    result = cli("calibrate", "-o", str(path), "--quick")
    assert "collectives keep the figures of cpu" in " ".join(result.stdout.split())
    assert record_document(path)["link"] == record_document("cpu")["link"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("calibrate", "-o", "{tmp}/no/mine.toml"), "there is no folder"),
        (("calibrate", "-o", "{tmp}/mine.json"), "does not end in .toml"),
        (("calibrate", "-o", "{tmp}/folder.toml"), "it is a folder"),
        (("calibrate", "-o", "{tmp}/mine.toml", "--base", "v5e"), "v5e is a record of a tpu"),
        (("calibrate", "-o", "{tmp}/mine.toml", "--base", "h10"), "No hardware is called 'h10'"),
        (("calibrate", "-o", "{tmp}/mine.toml", "--base", "{tmp}/no.toml"), "cannot be read"),
        (("compare", "--cluster", "h100:8"), "h100:8 is a record of a gpu"),
        (("compare", "--cluster", "cpu:9"), "cpu:9 has 9 devices, but here are 8"),
        (("compare", "--cluster", "cpu"), "Cannot load cluster"),
    ],
)
def test_bad_input_is_one_error(cli, tmp_path, args, message):
    (tmp_path / "folder.toml").mkdir()
    result = cli(*(arg.format(tmp=tmp_path) for arg in args))
    assert result.exit_code == 3
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert not (tmp_path / "mine.toml").exists()


def test_no_output_is_wrong_usage(cli):
    assert cli("calibrate").exit_code == 2


def test_a_spent_time_limit_is_said():
    late = measure.Effort(quick=True, repeats=1, chain_s=0.001, longest_step_s=1.0, limit_s=-1.0)
    result = measure.measure_sweep(mw.Cluster.load("cpu:8"), late)
    assert result.ended_early
    assert result.measurements == ()
    with pytest.raises(mw.CalibrationError, match="Nothing could be measured"):
        runtime.calibrate(effort=late)
