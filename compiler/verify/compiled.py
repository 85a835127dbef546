"""What a compiler said of a program: the record that a compile in a child process leaves."""

from __future__ import annotations

import msgspec

from ..plan import MeshSpec
from .target import CompileTarget


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the child process is to compile.

    Attributes:
        target: for what.
        mesh: the logical mesh.
        donated: for each flat argument, whether it is given away.
        program: file of the exported program.
        dump: folder for the compiler's schedule; empty for none.
    """

    target: CompileTarget
    mesh: MeshSpec
    donated: tuple[bool, ...]
    program: str
    dump: str = ""


class CompiledProgram(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the compiler made of a program, for one device.

    Attributes:
        platform: ``tpu`` or ``cuda``.
        compiler: the compiler's version.
        argument_bytes: arguments.
        output_bytes: results.
        alias_bytes: results that take the place of arguments.
        temp_bytes: temporaries, as far as the compiler's arena goes.
        peak_bytes: the most at any time.
        hlo: the optimized program; empty where it did not fit.
        timed: whether it was compiled with full effort, which a schedule needs.
        schedule: the latency-hiding scheduler's file; empty where it wrote none.
        warnings: the partitioner's complaints about full rematerialization.
        does_not_fit: the compiler's words where the program exceeds the device's memory.
        compile_s: seconds of wall time.
    """

    platform: str
    compiler: str
    argument_bytes: int = 0
    output_bytes: int = 0
    alias_bytes: int = 0
    temp_bytes: int = 0
    peak_bytes: int = 0
    hlo: str = ""
    timed: bool = False
    schedule: str = ""
    warnings: tuple[str, ...] = ()
    does_not_fit: str = ""
    compile_s: float = 0.0
