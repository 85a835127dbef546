"""Every public error survives a process boundary and documents itself."""

import inspect
import pickle

import pytest

from meshwright.compiler import errors

ARGUMENTS = {
    "IndivisibleError": ("batch/x", 0, 30, 8, ["data"]),
    "InfeasibleError": (2000, 1000, "dot at a.py:3", [("w", 500)]),
    "TemplateError": ("expert", "step", {(8,): "it has no experts"}, ["data", "fsdp"]),
    "CompilerError": ("v5e:2x4", 1, ["unknown opcode"]),
    "PlanMismatchError": ("batch/x", "f32[8]", "f32[4]"),
    "HardwareRecordError": ("h100.toml", ["memory.bandwidth is missing"]),
    "UnknownClusterError": ("h10:8", "no hardware is called 'h10'"),
}


@pytest.mark.parametrize("name", errors.__all__)
def test_pickles(name: str) -> None:
    error = getattr(errors, name)(*ARGUMENTS.get(name, ("a message",)))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


@pytest.mark.parametrize("name", errors.__all__)
def test_docstring_is_a_manual_entry(name: str) -> None:
    text = inspect.getdoc(getattr(errors, name)) or ""
    assert all(part in text for part in ("Cause:", "Example:", "Fix:"))
