"""Shared test set-up: eight virtual CPU devices, a compilation cache, hypothesis profiles.

The environment must be complete before jax is first imported, so it is set before any other import.
"""

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
DEVICE_COUNT = 8
XLA_FLAGS = {
    "xla_force_host_platform_device_count": DEVICE_COUNT,
    # The tests' programs are tiny: LLVM's optimizer costs them more than it saves (a decoder's step compiles
    # in 3.4 s instead of 8.8 s). Set the flag to 3 in the environment to test optimized code.
    "xla_backend_optimization_level": 0,
}


def _set_environment() -> None:
    os.environ["JAX_PLATFORMS"] = "cpu"
    flags = os.environ.get("XLA_FLAGS", "")
    for name, value in XLA_FLAGS.items():
        if name not in flags:
            flags = f"{flags} --{name}={value}".strip()
    os.environ["XLA_FLAGS"] = flags
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".cache" / "jax"))
    # Only with a size limit does jax lock the cache; unlocked, xdist workers read half-written entries.
    os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(2 * 1024**3))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")


_set_environment()

import jax  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

settings.register_profile(
    "ci", derandomize=True, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("dev", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


@pytest.fixture(scope="session")
def devices() -> list[jax.Device]:
    """The eight virtual CPU devices; fails loudly where jax started with fewer."""
    found = jax.devices("cpu")
    if len(found) < DEVICE_COUNT:
        pytest.fail(f"the tests need {DEVICE_COUNT} CPU devices, jax found {len(found)}: check XLA_FLAGS")
    return found[:DEVICE_COUNT]


@pytest.fixture(scope="session")
def load_example() -> Callable[[str], ModuleType]:
    """A function from an example's name (`gpt`) to its module."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
        if spec is None or spec.loader is None:
            pytest.fail(f"no example {name}")
        if spec.name not in sys.modules:
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        return sys.modules[spec.name]

    return load
