"""The child process: compiles one exported program for devices that are not there.

``python -m meshwright.compiler.verify.worker REQUEST RESPONSE``, both JSON files. It is a process of its own
because a compiler may end it, and because libtpu wants its settings before JAX starts.
"""

from __future__ import annotations

import importlib.metadata
import sys
import time
from pathlib import Path
from typing import Any

import jax
import msgspec
from jax.experimental import topologies

from ..lowering import device_mesh
from .compiled import CompiledProgram, Request
from .target import CompileTarget

_NO_ROOM = "RESOURCE_EXHAUSTED"
_PACKAGES = {"tpu": "libtpu", "cuda": "jax-cuda12-pjrt"}


def compile_request(request: Request) -> CompiledProgram:
    """Compiles a request's program.

    Args:
        request: what to compile.

    Returns:
        What the compiler says of it.
    """
    devices = _devices(request.target)
    mesh = device_mesh(request.mesh, devices)
    exported = jax.export.deserialize(bytearray(Path(request.program).read_bytes()))
    jitted = jax.jit(
        exported.call,
        in_shardings=exported.in_shardings_jax(mesh),
        out_shardings=jax.tree.unflatten(exported.out_tree, exported.out_shardings_jax(mesh)),
        donate_argnums=tuple(i for i, given in enumerate(request.donated) if given),
    )
    avals = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in exported.in_avals]
    compiler = _version(request.target.platform)
    start_s = time.monotonic()
    try:
        compiled = jitted.lower(*avals).compile()
    except jax.errors.JaxRuntimeError as error:
        if _NO_ROOM not in str(error):
            raise
        return CompiledProgram(request.target.platform, compiler, does_not_fit=str(error))
    return _facts(request.target.platform, compiler, compiled, time.monotonic() - start_s)


def _devices(target: CompileTarget) -> list[Any]:
    """Devices in the order the cost model counts them: slices, then the torus row-major, or hosts."""
    options: dict[str, Any] = dict(target.options)
    if target.platform == "tpu":
        topology = topologies.get_topology_desc(target.topology, "tpu", **options)
    else:
        topology = topologies.get_topology_desc(platform=target.platform, topology=target.topology, **options)
    devices = list(topology.devices)
    if len(devices) != target.num_devices:
        raise SystemExit(f"{target.topology} has {len(devices)} devices here, not {target.num_devices}")
    return sorted(devices, key=_place)


def _place(device: Any) -> tuple[Any, ...]:
    coords = tuple(getattr(device, "coords", None) or ())
    return (getattr(device, "slice_index", None) or 0, *coords, device.id)


def _version(platform: str) -> str:
    package = _PACKAGES[platform]
    return f"{package} {importlib.metadata.version(package)}"


def _facts(platform: str, compiler: str, compiled: Any, compile_s: float) -> CompiledProgram:
    memory = compiled.memory_analysis()
    sizes = (
        memory.argument_size_in_bytes,
        memory.output_size_in_bytes,
        memory.alias_size_in_bytes,
        memory.temp_size_in_bytes,
    )
    argument, output, alias, temp = sizes
    peak = argument + output - alias + temp if platform == "tpu" else memory.peak_memory_in_bytes
    return CompiledProgram(platform, compiler, *sizes, peak, compiled.as_text(), compile_s=compile_s)


def main(arguments: list[str]) -> None:
    """Reads the request, writes the response."""
    request, response = map(Path, arguments)
    made = compile_request(msgspec.json.decode(request.read_bytes(), type=Request))
    response.write_bytes(msgspec.json.encode(made))


if __name__ == "__main__":
    main(sys.argv[1:])
