"""From a Python function and abstract arguments to a ``Program``."""

from .trace import TraceOptions, trace_program

__all__ = ["TraceOptions", "trace_program"]
