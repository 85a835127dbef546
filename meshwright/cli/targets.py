"""Loads a TARGET: ``package.module:function`` or ``path/file.py:function``."""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from meshwright.compiler.errors import ArgumentError, MeshwrightError


def load_function(target: str) -> Callable[..., Any]:
    """The callable that a target names; attributes of classes and objects may be reached by dots.

    Raises:
        ArgumentError: where the text has no colon, the file or module does not exist or fails to import,
            there is no such name (near ones are given), or it cannot be called.
    """
    where, colon, names = target.rpartition(":")
    if not colon or not where or not names:
        raise ArgumentError(
            f"{target!r} is no target: write package.module:function or path/file.py:function."
        )
    found: Any = _load_module(where)
    for name in names.split("."):
        found = _attribute(found, name, target)
    if not callable(found):
        raise ArgumentError(f"{target} is {type(found).__name__}, which cannot be called; name a function.")
    return found


def load_arguments(target: str) -> tuple[Any, ...]:
    """Calls a target without arguments: the tuple it returns, or its one result, are the program's arguments.

    Raises:
        ArgumentError: as ``load_function``, or where the call fails.
    """
    make = load_function(target)
    try:
        arguments = make()
    except MeshwrightError:
        raise
    except Exception as error:
        raise ArgumentError(
            f"--args {target} failed when called without arguments: {_last_line(error)}"
        ) from error
    # Not isinstance: a named tuple is one argument, such as a training state.
    return arguments if type(arguments) is tuple else (arguments,)


def _load_module(where: str) -> ModuleType:
    try:
        if where.endswith(".py") or "/" in where or "\\" in where:
            return _load_file(Path(where).resolve())
        _search_first(Path.cwd())
        return importlib.import_module(where)
    except (MeshwrightError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a module's code may raise anything, SystemExit too
        raise ArgumentError(_import_problem(where, error)) from error


@functools.cache
def _load_file(path: Path) -> ModuleType:
    """The module of a file, run once however often it is named: two copies of a class would not be equal."""
    if not path.is_file():
        raise ArgumentError(f"no such file: {path}{_near_files(path)}")
    root, name = _package_root(path)
    _search_first(root)
    if "." in name:
        return importlib.import_module(name)
    # A file may be called like a module that is loaded already, such as types.py.
    name = name if name not in sys.modules else f"meshwright_target_{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ArgumentError(f"{path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _package_root(path: Path) -> tuple[Path, str]:
    """The folder imports start from and the dotted name there: the package's parent, or the file's folder."""
    folder, parts = path.parent, [path.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def _search_first(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _attribute(owner: Any, name: str, target: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError:
        names = [n for n in dir(owner) if not n.startswith("_")]
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(near)}?" if near else f"; it has {_some(_functions(owner))}"
        raise ArgumentError(f"{target}: there is no {name!r}{hint}") from None


def _functions(owner: Any) -> list[str]:
    """Names a user would want: public callables defined here, not imported."""
    own = getattr(owner, "__name__", None)
    public = ((name, getattr(owner, name, None)) for name in dir(owner) if not name.startswith("_"))
    return [name for name, v in public if callable(v) and getattr(v, "__module__", None) in (None, own)]


def _some(names: list[str], most: int = 8) -> str:
    if not names:
        return "no functions"
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _near_files(path: Path) -> str:
    names = [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, names, n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def _import_problem(where: str, error: BaseException) -> str:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing and (where == missing or where.startswith(f"{missing}.")):
        return (
            f"no module named {missing!r} (run from {Path.cwd()}); for a file, write path/file.py:function."
        )
    return f"{where} cannot be imported: {_last_line(error)}"


def _last_line(error: BaseException) -> str:
    """The error and the innermost line of the user's code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f" (at {frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return "".join(traceback.format_exception_only(error)).strip() + at
