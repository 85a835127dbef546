"""Clusters: a device type, how many there are and how they are wired.

Accepted forms: `cpu:8` (one host), `h100:2x8` (hosts x devices), `v5e:4x4` and `v5p:2x2x2` (torus),
`v5e:4x4@2` (slices joined by the data-centre network), or the path of a TOML file (docs/clusters.md).
"""

import difflib
import hashlib
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

from .errors import HardwareRecordError, UnknownClusterError
from .hardware_record import Hardware, hardware_names, load_hardware

_SPEC = re.compile(r"(?P<name>[^:@]+):(?P<shape>\d+(?:x\d+)*)(?:@(?P<slices>\d+))?")
_FORMS = (
    "cpu:8",
    "h100:2x8 (hosts x devices)",
    "v5e:4x4 and v5p:2x2x2 (torus)",
    "v5e:4x4@2 (slices)",
    "FILE.toml",
)
_FILE_KEYS = {"name", "hardware", "shape", "slices", "override"}
_MAX_SLICES = 1024


@dataclass(frozen=True)
class Cluster:
    """A validated cluster; make one with `Cluster.load`.

    Attributes:
        name: the specification as the user wrote it (not part of equality or hash).
        hardware: rates and links of one device.
        shape: (hosts, devices per host), or the dimensions of one torus slice.
        num_slices: torus slices joined by the data-centre network; 1 for hosts.
    """

    name: str = field(compare=False)
    hardware: Hardware
    shape: tuple[int, ...]
    num_slices: int = 1

    @property
    def num_devices(self) -> int:
        """Number of devices over all hosts or slices."""
        return math.prod(self.shape) * self.num_slices

    @property
    def inner_size(self) -> int:
        """Devices joined by the fast links: those of one host, or of one torus slice."""
        return math.prod(self.shape) if self.hardware.torus else self.shape[-1]

    @property
    def memory_bytes(self) -> int:
        """Usable memory of one device, in bytes."""
        return self.hardware.usable_memory_bytes

    @property
    def hash(self) -> str:
        """SHA-256 (hex) of hardware numbers, shape and slices; independent of the name."""
        content = f"{self.hardware.hash} {self.shape} {self.num_slices}"
        return hashlib.sha256(content.encode()).hexdigest()

    @staticmethod
    def load(spec: "str | PathLike[str] | Cluster") -> "Cluster":
        """Make a cluster from a specification.

        Args:
            spec: a cluster (returned as it is), one of the forms in the module docstring, or a path ending in
                `.toml`.

        Raises:
            UnknownClusterError: unknown hardware, malformed text, or a shape that cannot be built.
            HardwareRecordError: a TOML file's hardware record or overrides break the schema.
        """
        if isinstance(spec, Cluster):
            return spec
        text = str(spec).strip()
        if isinstance(spec, PathLike) or text.endswith(".toml"):
            return _from_file(Path(spec))
        return _from_text(text)

    @staticmethod
    def names() -> tuple[str, ...]:
        """Known hardware names, sorted; each may stand before the colon of a specification."""
        return hardware_names()

    def __hash__(self) -> int:
        # Meshes are cache keys of every collective priced: hashing all the numbers each time would dominate.
        return hash((self.hardware.name, self.shape, self.num_slices))

    def __str__(self) -> str:
        return self.name


@lru_cache(maxsize=64)
def _shipped(name: str) -> Hardware:
    return load_hardware(name)


def _from_text(text: str) -> Cluster:
    match = _SPEC.fullmatch(text.lower())
    name = match["name"] if match else re.split(r"[:@]", text.lower())[0]
    if name not in hardware_names():
        near = difflib.get_close_matches(name, hardware_names(), n=3, cutoff=0.4) or list(hardware_names())
        raise UnknownClusterError(text, f"no hardware is called {name!r}", near, _FORMS)
    if match is None:
        raise UnknownClusterError(text, "the part after the hardware name is not a shape", (), _FORMS)
    shape = tuple(int(size) for size in match["shape"].split("x"))
    return _checked(text, text, _shipped(name), shape, int(match["slices"] or 1))


def _checked(spec: str, name: str, hardware: Hardware, shape: tuple[int, ...], slices: int) -> Cluster:
    """Cluster after checking that the shape can be built."""
    if hardware.torus is None and len(shape) == 1:
        shape = (1, *shape)
    reason = _torus_problem(hardware, shape) if hardware.torus else _hosts_problem(hardware, shape, slices)
    if min(shape, default=0) < 1 or not 1 <= slices <= _MAX_SLICES:
        reason = f"every size must be at least 1, and slices between 1 and {_MAX_SLICES}"
    if reason:
        raise UnknownClusterError(spec, reason, (), _FORMS)
    return Cluster(name, hardware, shape, slices)


def _hosts_problem(hardware: Hardware, shape: tuple[int, ...], slices: int) -> str:
    """Why hosts of devices cannot have this shape, or an empty text."""
    most = hardware.host_devices
    if len(shape) != 2:
        return f"{hardware.name} takes DEVICES or HOSTSxDEVICES, not {len(shape)} dimensions"
    if slices != 1:
        return f"{hardware.name} has no slices; write more hosts instead of @{slices}"
    if shape[1] > most:
        hosts = -(-math.prod(shape) // most)
        return f"a host holds at most {most} {hardware.name} devices (try {hardware.name}:{hosts}x{most})"
    return ""


def _torus_problem(hardware: Hardware, shape: tuple[int, ...]) -> str:
    """Why a torus slice cannot have this shape, or an empty text."""
    torus = hardware.torus
    if torus is None:
        return ""
    example = "x".join(str(size) for size in torus.small_shapes[-1])
    if len(shape) != torus.rank:
        return f"{hardware.name} slices have {torus.rank} dimensions, such as {hardware.name}:{example}"
    if torus.allows(shape):
        return ""
    small = ", ".join("x".join(map(str, small)) for small in torus.small_shapes)
    return (
        f"{hardware.name} has no {'x'.join(map(str, shape))} slice; there are {small}, and multiples of "
        f"{torus.wrap_multiple} in every dimension up to {torus.max_devices} chips"
    )


def _from_file(path: Path) -> Cluster:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UnknownClusterError(str(path), f"the file cannot be read ({error})", (), _FORMS) from error
    except tomllib.TOMLDecodeError as error:
        raise UnknownClusterError(str(path), f"the file is not valid TOML ({error})", (), _FORMS) from error
    problems = _file_problems(document)
    if problems:
        raise UnknownClusterError(str(path), "; ".join(problems), (), _FORMS)
    hardware = _file_hardware(path, document)
    name = document.get("name", path.stem)
    return _checked(str(path), name, hardware, tuple(document["shape"]), document.get("slices", 1))


def _file_hardware(path: Path, document: Mapping[str, Any]) -> Hardware:
    """Hardware of a cluster file: a known name, or a record beside the file."""
    wanted, overrides = document["hardware"], document.get("override", {})
    if wanted not in hardware_names() and not wanted.endswith(".toml"):
        near = difflib.get_close_matches(wanted, hardware_names(), cutoff=0.4) or hardware_names()
        raise UnknownClusterError(str(path), f"no hardware is called {wanted!r}", near, _FORMS)
    source = path.parent / wanted if wanted.endswith(".toml") else wanted
    try:
        return load_hardware(source, overrides)
    except HardwareRecordError as error:
        raise HardwareRecordError(str(path), error.problems) from error


def _file_problems(document: Mapping[str, Any]) -> list[str]:
    """Every problem of a cluster file's keys and types."""
    problems = [f"unknown key {key}" for key in sorted(document.keys() - _FILE_KEYS)]
    for key, kind in (("hardware", str), ("name", str), ("slices", int), ("override", dict)):
        if key in document and (not isinstance(document[key], kind) or isinstance(document[key], bool)):
            problems.append(f"{key} must be of type {kind.__name__}")
    shape = document.get("shape")
    whole = isinstance(shape, list) and all(isinstance(s, int) and not isinstance(s, bool) for s in shape)
    if not whole or not shape:
        problems.append("shape must be a list of whole numbers")
    return problems + ([] if "hardware" in document else ["missing key hardware"])
