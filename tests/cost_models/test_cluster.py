"""Cluster specifications: every accepted form, and every way they can be wrong."""

import pytest

from meshwright.compiler import errors
from meshwright.cost_models.cluster import Cluster
from meshwright.cost_models.errors import HardwareRecordError, UnknownClusterError


@pytest.mark.parametrize(
    ("spec", "hardware", "shape", "slices", "devices", "inner"),
    [
        ("cpu:8", "cpu", (1, 8), 1, 8, 8),
        ("cpu:1", "cpu", (1, 1), 1, 1, 1),
        ("h100:2x8", "h100", (2, 8), 1, 16, 8),
        (" H100:3x4 ", "h100", (3, 4), 1, 12, 4),
        ("v5e:4x4", "v5e", (4, 4), 1, 16, 16),
        ("v5e:4x2", "v5e", (4, 2), 1, 8, 8),
        ("v5e:16x16", "v5e", (16, 16), 1, 256, 256),
        ("v5p:2x2x2", "v5p", (2, 2, 2), 1, 8, 8),
        ("v5p:8x8x16", "v5p", (8, 8, 16), 1, 1024, 1024),
        ("v5e:4x4@2", "v5e", (4, 4), 2, 32, 16),
    ],
)
def test_accepted_forms(spec, hardware, shape, slices, devices, inner):
    cluster = Cluster.load(spec)
    assert cluster.name == spec.strip()
    assert cluster.hardware.name == hardware
    assert (cluster.shape, cluster.num_slices) == (shape, slices)
    assert (cluster.num_devices, cluster.inner_size) == (devices, inner)
    assert cluster.memory_bytes == cluster.hardware.usable_memory_bytes


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("h10:8", "h100"),
        ("", "Accepted forms"),
        ("h100", "Accepted forms"),
        ("h100:", "Accepted forms"),
        ("h100:2x", "Accepted forms"),
        ("h100:-8", "Accepted forms"),
        ("h100:8:8", "Accepted forms"),
        ("v5e:4x4@", "Accepted forms"),
        ("cpu:0", "at least 1"),
        ("h100:0x8", "at least 1"),
        ("v5e:4x4@0", "slices between"),
        ("v5e:4x4@99999", "slices between"),
        ("h100:64", "h100:8x8"),
        ("h100:2x2x2", "HOSTSxDEVICES"),
        ("h100:2x8@2", "no slices"),
        ("v5e:8", "2 dimensions"),
        ("v5e:3x5", "no 3x5 slice"),
        ("v5e:32x32", "no 32x32 slice"),
        ("v5e:0x4", "at least 1"),
        ("v5p:4x4x5", "no 4x4x5 slice"),
        ("v5p:32x32x32", "no 32x32x32 slice"),
        ("nowhere.toml", "cannot be read"),
    ],
)
def test_refused_specifications_say_why(spec, message):
    with pytest.raises(UnknownClusterError) as caught:
        Cluster.load(spec)
    assert repr(spec.strip()) in str(caught.value)
    assert message in str(caught.value)
    assert "Accepted forms" in str(caught.value)


def test_load_passes_clusters_through():
    cluster = Cluster.load("cpu:4")
    assert Cluster.load(cluster) is cluster


def test_equality_and_hash_ignore_spelling():
    assert Cluster.load("h100:8") == Cluster.load("H100:1x8")
    assert hash(Cluster.load("h100:8")) == hash(Cluster.load("H100:1x8"))
    assert Cluster.load("h100:8").hash == Cluster.load("h100:1x8").hash
    hashes = {Cluster.load(spec).hash for spec in ("h100:8", "h200:8", "h100:2x8", "v5e:4x4", "v5e:4x4@2")}
    assert len(hashes) == 5


def test_names_are_the_records():
    assert {"cpu", "h100", "v5e", "v5p"} <= set(Cluster.names())


def test_cluster_file_with_overrides(tmp_path):
    path = tmp_path / "rack.toml"
    path.write_text(
        'hardware = "h100"\nshape = [2, 8]\n[override.memory]\nusable_bytes = 60_000_000_000\n'
        "[override.link.outer]\nbandwidth = 25e9\n"
    )
    cluster = Cluster.load(path)
    assert cluster.name == "rack"
    assert cluster.memory_bytes == 60_000_000_000
    assert cluster.hardware.outer.bandwidth == 25e9
    assert cluster.hardware.outer.alpha_s == Cluster.load("h100:8").hardware.outer.alpha_s
    assert cluster != Cluster.load("h100:2x8")
    assert Cluster.load(str(path)) == cluster


def test_cluster_file_without_overrides_equals_the_name(tmp_path):
    path = tmp_path / "plain.toml"
    path.write_text('name = "ours"\nhardware = "v5e"\nshape = [4, 4]\nslices = 2\n')
    assert Cluster.load(path) == Cluster.load("v5e:4x4@2")
    assert Cluster.load(path).name == "ours"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('shape = [8]\nhardware = "h10"', "h100"),
        ("shape = [8]", "missing key hardware"),
        ('hardware = "h100"', "shape must be a list"),
        ('hardware = "h100"\nshape = 8', "shape must be a list"),
        ('hardware = "h100"\nshape = [8.5]', "shape must be a list"),
        ('hardware = "h100"\nshape = [8]\ncolour = 3', "unknown key colour"),
        (
            'hardware = 3\nshape = [8]\nslices = "two"',
            "hardware must be of type str; slices must be of type int",
        ),
        ('hardware = "h100"\nshape = [64]', "at most 8"),
        ("hardware = ", "not valid TOML"),
    ],
)
def test_bad_cluster_files(tmp_path, text, message):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(UnknownClusterError) as caught:
        Cluster.load(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_bad_override_names_file_and_key(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text('hardware = "h100"\nshape = [8]\n[override.memory]\nusable_bytes = -1\nspeed = 3\n')
    with pytest.raises(HardwareRecordError) as caught:
        Cluster.load(path)
    assert str(path) in str(caught.value)
    assert "override of unknown key memory.speed" in str(caught.value)
    assert "memory.usable_bytes" in str(caught.value)


def test_compiler_errors_re_export_the_same_classes():
    assert errors.UnknownClusterError is UnknownClusterError
    public = [getattr(errors, name) for name in errors.__all__]
    assert all(issubclass(error, errors.MeshwrightError) for error in public)


def test_every_public_error_documents_cause_example_fix():
    for name in errors.__all__:
        text = getattr(errors, name).__doc__
        assert "Cause:" in text and "xample" in text and "Fix:" in text, name
