"""From a program and its plan to a function XLA compiles for the mesh."""

from .placement import device_mesh, named_sharding, require_devices
from .spmd import SpmdProgram

__all__ = ["SpmdProgram", "device_mesh", "named_sharding", "require_devices"]
