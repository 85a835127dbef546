"""The command line: one module for each command, all of them thin."""

from .app import app, main

__all__ = ["app", "main"]
