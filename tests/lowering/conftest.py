"""Declarations that end with the test, as for the rules."""

from tests.rules.conftest import declare

__all__ = ["declare"]
