"""Base error of the project and the errors of the cost models; `compiler.errors` re-exports all of them."""

from __future__ import annotations

from collections.abc import Sequence


class MeshwrightError(Exception):
    """Base of every error meshwright raises on purpose.

    Cause: any problem a user can act on. Example: `except mw.MeshwrightError` around a planning call catches
    them all and nothing else. Fix: read the message; it names the thing at fault and the way out.
    """

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process boundaries; their constructors take more than a message.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(
    kind: type[MeshwrightError], args: tuple[object, ...], attributes: dict[str, object]
) -> MeshwrightError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class UnknownClusterError(MeshwrightError):
    """A cluster specification names no known hardware, is malformed, or has a shape that cannot be built.

    Cause: a typing error, a wrong number of dimensions, or more devices than a host or pod holds.
    Example: `Cluster.load("h10:8")`, or `Cluster.load("v5e:3x5")` (no such slice is offered).
    Fix: use one of the accepted forms listed in the message, or a TOML file (docs/clusters.md).
    """

    def __init__(self, spec: str, reason: str, near: Sequence[str] = (), forms: Sequence[str] = ()) -> None:
        self.spec = spec
        self.reason = reason
        hint = f"\n  Nearest known: {', '.join(near)}." if near else ""
        accepted = f"\n  Accepted forms: {'; '.join(forms)}." if forms else ""
        super().__init__(f"Cannot load cluster {spec!r}: {reason}{hint}{accepted}")


class InvalidMeshError(MeshwrightError):
    """A logical mesh does not fit its cluster, or an axis does not exist in it.

    Cause: the product of the axis sizes is not the device count, two axes share a name, or the names and
    sizes differ in number. Example: `LogicalMesh(Cluster.load("cpu:8"), (2, 2), ("data", "model"))` (4 is not
    8).
    Fix: choose sizes whose product is `cluster.num_devices` and one distinct name for each.
    """


class HardwareRecordError(MeshwrightError):
    """A hardware record (TOML) is missing, unreadable, incomplete, or holds an impossible number.

    Cause: an unknown or missing key, a value that is not a positive number, or a number without its source.
    Example: `[memory] usable_bytes = {value = -1, source = "..."}`. Fix: correct the file and keys the
    message names; docs/clusters.md lists every key. All problems of a file are reported at once.
    """

    def __init__(self, path: str, problems: Sequence[str]) -> None:
        self.path = path
        self.problems = tuple(problems)
        super().__init__(f"Hardware record {path}: " + "; ".join(self.problems))


class CalibrationError(MeshwrightError):
    """The devices at hand cannot be measured as asked, or the result cannot be written.

    Cause: a record or cluster of another kind than the devices, more devices than there are, nothing measured
    in the time given, or an output file that is no `.toml` or whose folder does not exist.
    Example: `meshwright calibrate --base v5e -o mine.toml` on a machine without a TPU.
    Fix: name hardware of the kind that the message says is here, or an output in an existing folder.
    """


class HloFormatError(MeshwrightError):
    """A text given as optimized HLO, or as a dumped schedule, does not read as one.

    Cause: a truncated file, something else than `compiled.as_text()`, or a compiler newer than the reader.
    Example: `parse_module("ENTRY %main {")` (no `HloModule` line). Fix: look at the line the message quotes;
    when it is what the compiler wrote, the reader in `cost_models/hlo` lacks that form.
    """

    def __init__(self, reason: str, line_number: int = 0, line: str = "") -> None:
        self.reason = reason
        self.line_number = line_number
        shown = line.strip() if len(line) <= 160 else line.strip()[:157] + "..."
        super().__init__(f"HLO line {line_number}: {reason}: {shown}" if line_number else f"HLO: {reason}")
