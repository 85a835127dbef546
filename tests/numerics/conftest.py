"""A cluster on which tiny programs are split as large ones would be."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import meshwright as mw

_EAGER = Path(__file__).with_name("eager.toml")


@pytest.fixture(scope="session")
def eager_cluster(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], mw.Cluster]:
    """A function from a device count to a cluster on which splitting always pays (see ``eager.toml``)."""
    folder = tmp_path_factory.mktemp("clusters")

    def make(num_devices: int) -> mw.Cluster:
        path = folder / f"eager_{num_devices}.toml"
        path.write_text(re.sub(r"shape = \[\d+\]", f"shape = [{num_devices}]", _EAGER.read_text()))
        return mw.Cluster.load(path)

    return make
