"""Fingerprints of programs: equal for equal computations, wherever their code stands in a file."""

from __future__ import annotations

import hashlib

from ..ir import Program, format_program


def program_fingerprint(program: Program) -> str:
    """SHA-256 of the program's canonical text without source lines, as hex digits.

    Shapes, element types, pytree paths, donation and every operation count; values of closed-over constants
    and source positions do not.
    """
    return hashlib.sha256(format_program(program, sources=False).encode()).hexdigest()
