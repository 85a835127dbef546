"""Which compiler a cluster is for, and what is said where there is none."""

from __future__ import annotations

import pytest

import meshwright as mw
from meshwright.compiler.verify import target
from meshwright.compiler.verify.target import compile_target


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "_is_installed", lambda module: True)


@pytest.mark.parametrize(
    ("name", "topology", "options"),
    [
        ("v5e:2x4", "v5e:2x4", {"chips_per_host_bounds": (2, 2, 1)}),
        ("v5e:1x1", "v5e:1x1", {"chips_per_host_bounds": (1, 1, 1)}),
        ("v5p:2x2x2@2", "v5p:2x2x2", {"chips_per_host_bounds": (2, 2, 1), "num_slices": 2}),
    ],
)
def test_tpu_topologies(name: str, topology: str, options: dict[str, object]) -> None:
    cluster = mw.Cluster.load(name)
    made = compile_target(cluster)
    assert (made.platform, made.topology, made.num_devices) == ("tpu", topology, cluster.num_devices)
    assert made.options == options


def test_gpu_targets_have_the_records_memory() -> None:
    made = compile_target(mw.Cluster.load("h200:2x8"))
    assert (made.platform, made.topology, made.num_devices) == ("cuda", "1x2x8", 16)
    text = str(made.options["target_config"])
    assert "device_memory_size: 141000000000\n" in text
    assert "memory_bandwidth: 4800000000000\n" in text
    assert "core_count: 132\n" in text


@pytest.mark.parametrize(
    ("name", "says"),
    [("cpu:8", "TPU or GPU cluster"), ("v4:2x2x1", "two devices"), ("b200:1x8", "description of b200")],
)
def test_clusters_without_a_compiler(name: str, says: str) -> None:
    with pytest.raises(mw.UnsupportedError, match=says):
        compile_target(mw.Cluster.load(name))


@pytest.mark.parametrize(("name", "extra"), [("v5e:2x4", "tpu"), ("h100:1x8", "gpu")])
def test_a_missing_compiler_names_the_command(name: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "_is_installed", lambda module: False)
    with pytest.raises(mw.UnsupportedError, match=rf"pip install 'meshwright\[{extra}\]'"):
        compile_target(mw.Cluster.load(name))
