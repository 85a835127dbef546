"""Compiles in a child process: with a time limit, with news, and not twice."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import filelock
import msgspec
import platformdirs

from ... import __version__
from ...cost_models.hlo.dump import SCHEDULE_FLAGS, schedule_path
from ..errors import CompilerError
from ..plan import MeshSpec
from .compiled import CompiledProgram, Request
from .target import CompileTarget

Progress = Callable[[str], None]
_WORKER = "meshwright.compiler.verify.worker"
_NEWS_EVERY_S = 1.0
_LAST_LINES = 12
_MODULE = re.compile(r"HloModule ([^,\s]+)")
# Without these libtpu looks for a TPU machine's metadata server, and for its lock.
_ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
_PACKAGES = ("jax", "jaxlib", "libtpu", "jax-cuda12-plugin", "jax-cuda12-pjrt", "nvidia-cuda-nvcc-cu12")
_FULL_COPY = "full rematerialization"


def compile_apart(
    exported: bytes,
    target: CompileTarget,
    mesh: MeshSpec,
    donated: Sequence[bool],
    *,
    fast: bool = True,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
) -> CompiledProgram:
    """Compiles an exported program in a child process, or takes what an earlier compile left.

    Args:
        exported: what ``exported_program`` made.
        target: for what.
        mesh: the plan's mesh.
        donated: for each flat argument, whether it is given away.
        fast: compile with little effort: the same communication and about the same memory, but no schedule.
        time_limit_s: seconds of wall time after which the child is ended.
        progress: called with a line about once a second.

    Raises:
        CompilerError: where the compiler refuses the program, dies or runs out of time.
    """
    kept = _cache_file(exported, target, mesh, donated, fast)
    with filelock.FileLock(f"{kept}.lock"):
        found = _load(kept)
        if found is None:
            found = _compile(exported, target, mesh, donated, fast, time_limit_s, progress)
            _store(kept, found)
    return found


def _cache_file(
    exported: bytes, target: CompileTarget, mesh: MeshSpec, donated: Sequence[bool], fast: bool
) -> Path:
    versions = [(name, _version_of(name)) for name in _PACKAGES]
    key = hashlib.sha256(exported)
    key.update(msgspec.json.encode((target, mesh, list(donated), fast, versions, __version__)))
    folder = platformdirs.user_cache_path("meshwright") / "compiled"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{key.hexdigest()}.json"


def _version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _load(kept: Path) -> CompiledProgram | None:
    """A cached answer; none where there is none, or where it cannot be read."""
    try:
        return msgspec.json.decode(kept.read_bytes(), type=CompiledProgram)
    except (OSError, msgspec.DecodeError):
        return None


def _store(kept: Path, made: CompiledProgram) -> None:
    written = kept.with_suffix(f".{os.getpid()}.tmp")
    written.write_bytes(msgspec.json.encode(made))
    written.replace(kept)


def _compile(
    exported: bytes,
    target: CompileTarget,
    mesh: MeshSpec,
    donated: Sequence[bool],
    fast: bool,
    time_limit_s: float | None,
    progress: Progress | None,
) -> CompiledProgram:
    with tempfile.TemporaryDirectory(prefix="meshwright-") as name:
        folder = Path(name)
        (folder / "program").write_bytes(exported)
        request = Request(
            target, mesh, tuple(donated), str(folder / "program"), "" if fast else str(folder / "dump")
        )
        (folder / "request").write_bytes(msgspec.json.encode(request))
        words = _run(folder, _environment(request), time_limit_s, progress, target)
        made = msgspec.json.decode((folder / "response").read_bytes(), type=CompiledProgram)
        warnings = tuple(line.strip() for line in words.splitlines() if _FULL_COPY in line.lower())
        schedule = "" if fast else _schedule(Path(request.dump), made.hlo)
        return msgspec.structs.replace(made, warnings=warnings, timed=not fast, schedule=schedule)


def _schedule(dump: Path, hlo: str) -> str:
    """The schedule the compiler wrote of this module; nothing where nothing in it was asynchronous."""
    name = _MODULE.match(hlo)
    path = schedule_path(dump, name[1]) if name and dump.is_dir() else None
    return "" if path is None else path.read_text(encoding="utf-8")


def _environment(request: Request) -> dict[str, str]:
    environment = {**os.environ, **_ENVIRONMENT}
    flags = [os.environ.get("XLA_FLAGS", "")]
    if request.dump:
        kind = "tpu" if request.target.platform == "tpu" else "gpu"
        flags += [flag.format(directory=request.dump) for flag in SCHEDULE_FLAGS[kind]]
    else:
        environment["JAX_EXEC_TIME_OPTIMIZATION_EFFORT"] = "-1.0"
    return {**environment, "XLA_FLAGS": " ".join(filter(None, flags))}


def _run(
    folder: Path,
    environment: dict[str, str],
    time_limit_s: float | None,
    progress: Progress | None,
    target: CompileTarget,
) -> str:
    """Runs the child; returns what it wrote to stderr."""
    log = folder / "log"
    start_s = time.monotonic()
    with log.open("wb") as written:
        command = [sys.executable, "-m", _WORKER, str(folder / "request"), str(folder / "response")]
        child = subprocess.Popen(command, stdout=written, stderr=written, env=environment)
        try:
            _wait(child, start_s, time_limit_s, progress, target)
        finally:
            child.kill()
            child.wait()
    words = log.read_text(encoding="utf-8", errors="replace")
    if child.returncode or not (folder / "response").is_file():
        raise CompilerError(target.topology, child.returncode, words.splitlines()[-_LAST_LINES:])
    return words


def _wait(
    child: subprocess.Popen[bytes],
    start_s: float,
    time_limit_s: float | None,
    progress: Progress | None,
    target: CompileTarget,
) -> None:
    while True:
        try:
            child.wait(_NEWS_EVERY_S)
            return
        except subprocess.TimeoutExpired:
            spent_s = time.monotonic() - start_s
        if time_limit_s is not None and spent_s > time_limit_s:
            raise CompilerError(target.topology, None, [f"it was ended after {time_limit_s:g} s"])
        if progress is not None:
            progress(f"compiling for {target.topology}, {spent_s:.0f} s")
