"""Loading functions from files, packages and modules."""

import pytest

from meshwright.cli.targets import load_arguments, load_function
from meshwright.compiler.errors import ArgumentError


def test_a_file_is_run_once(tmp_path):
    path = tmp_path / "once.py"
    path.write_text("class State: pass\ndef make(): return State()\ndef same(): return State\n")
    made = load_arguments(f"{path}:make")[0]
    assert type(made) is load_function(f"{path}:same")()


def test_a_file_may_import_its_neighbours(tmp_path):
    (tmp_path / "mw_neighbour.py").write_text("VALUE = 7\n")
    (tmp_path / "uses.py").write_text("from mw_neighbour import VALUE\ndef f(): return VALUE\n")
    assert load_function(f"{tmp_path}/uses.py:f")() == 7


def test_a_file_of_a_package_may_import_relatively(tmp_path):
    package = tmp_path / "mw_package" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package.parent / "base.py").write_text("VALUE = 8\n")
    (package / "model.py").write_text("from ..base import VALUE\ndef f(): return VALUE\n")
    assert load_function(f"{package}/model.py:f")() == 8


def test_a_file_named_like_a_loaded_module(tmp_path):
    import types

    (tmp_path / "types.py").write_text("def f(): return 9\n")
    assert load_function(f"{tmp_path}/types.py:f")() == 9
    import types as still

    assert still is types


def test_a_named_tuple_is_one_argument(tmp_path):
    path = tmp_path / "named.py"
    path.write_text(
        "from collections import namedtuple\nS = namedtuple('S', 'a b')\ndef make(): return S(1, 2)\n"
    )
    assert load_arguments(f"{path}:make") == ((1, 2),)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_package_at_all\n", "No module named 'no_such_package_at_all' .at .*bad.py:1"),
        ("1 / 0\n", "ZeroDivisionError: .* .at .*bad.py:1"),
        ("def f(:\n", "SyntaxError"),
        ("import sys; sys.exit(7)\n", "SystemExit"),
        ("def g(): pass\nfrom os.path import join\n", "there is no 'f'; it has g"),
    ],
)
def test_a_bad_file_is_said_to_be_so(tmp_path, source, message):
    path = tmp_path / "bad.py"
    path.write_text(source)
    with pytest.raises(ArgumentError, match=message):
        load_function(f"{path}:f")
    with pytest.raises(ArgumentError, match=message):
        load_function(f"{path}:f")


def test_near_file_names(tmp_path):
    (tmp_path / "model.py").touch()
    with pytest.raises(ArgumentError, match="did you mean model.py"):
        load_function(f"{tmp_path}/modle.py:f")


@pytest.mark.parametrize("target", ["", ":", "a:", ":f", "model.py"])
def test_not_a_target(target):
    with pytest.raises(ArgumentError, match="is no target"):
        load_function(target)
