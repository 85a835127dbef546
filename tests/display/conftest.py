"""Gives the tests the plans built by hand in ``plans.py``."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def plans() -> ModuleType:
    """The module ``plans.py`` beside this file."""
    spec = importlib.util.spec_from_file_location("display_plans", Path(__file__).with_name("plans.py"))
    if spec is None or spec.loader is None:
        pytest.fail("plans.py is missing")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
