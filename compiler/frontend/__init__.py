"""From a Python function and abstract arguments to a ``Program``."""

from .naming import function_name
from .trace import TraceOptions, trace_program

__all__ = ["TraceOptions", "function_name", "trace_program"]
