"""The cluster of the zoo, and patience with other packages' warnings."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import meshwright as mw

_HERE = Path(__file__).parent
_EAGER = _HERE.parent / "numerics" / "eager.toml"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Deprecated names in the models' packages are not this project's errors; compiling them takes long."""
    for item in items:
        if _HERE in item.path.parents and item.path.name != "test_report.py":
            item.add_marker(pytest.mark.slow)
            for category in ("DeprecationWarning", "FutureWarning", "UserWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{category}"))


@pytest.fixture(scope="session")
def eager_cluster(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], mw.Cluster]:
    """A function from a device count to a cluster on which splitting always pays (see ``eager.toml``)."""
    folder = tmp_path_factory.mktemp("clusters")

    def make(num_devices: int) -> mw.Cluster:
        path = folder / f"eager_{num_devices}.toml"
        path.write_text(re.sub(r"shape = \[\d+\]", f"shape = [{num_devices}]", _EAGER.read_text()))
        return mw.Cluster.load(path)

    return make
