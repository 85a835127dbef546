"""Declarations that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import meshwright as mw


@pytest.fixture
def declare() -> Iterator[Callable[..., None]]:
    """``register_rule`` whose declarations end with the test."""
    targets = []

    def register(target: Any, *args: Any, **options: Any) -> None:
        mw.register_rule(target, *args, **options)
        targets.append(target)

    yield register
    for target in dict.fromkeys(targets):
        mw.unregister_rule(target)
