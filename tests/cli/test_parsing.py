"""Values of options."""

import pytest

from meshwright.cli.parsing import parse_budget, parse_donated, parse_mesh, parse_pin
from meshwright.compiler.display.units import format_spec


@pytest.mark.parametrize(
    ("text", "mesh"),
    [
        ("8", (8,)),
        ("2x4", (2, 4)),
        ("data=2,model=4", {"data": 2, "model": 4}),
        ("data=2, x = 1", {"data": 2, "x": 1}),
    ],
)
def test_mesh(text, mesh):
    assert parse_mesh(text) == mesh


@pytest.mark.parametrize("text", ["", "2y4", "2x", "data=2,data=4", "data=", "data=2;model=4", "-2x4"])
def test_bad_mesh(text):
    with pytest.raises(ValueError, match="is no mesh"):
        parse_mesh(text)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("16GiB", 16 * 2**30),
        ("16gb", 16 * 10**9),
        ("1.5 KiB", 1536),
        ("500M", 500 * 10**6),
        ("1024", 1024),
        ("8B", 8),
    ],
)
def test_budget(text, size_bytes):
    assert parse_budget(text) == size_bytes


@pytest.mark.parametrize("text", ["", "lots", "-1GiB", "0", "0GiB", "1 PiB", "GiB"])
def test_bad_budget(text):
    with pytest.raises(ValueError, match="amount of memory"):
        parse_budget(text)


@pytest.mark.parametrize(
    ("text", "pin"),
    [
        ("params/*/kernel=None,model", ("params/*/kernel", (None, "model"))),
        ("w=data+model", ("w", (("data", "model"),))),
        ("w=P(None, 'model')", ("w", (None, "model"))),
        ("w=P(('data', 'model'), None)", ("w", (("data", "model"), None))),
        ("w=P()", ("w", ())),
        ("w=replicated", ("w", ())),
    ],
)
def test_pin(text, pin):
    assert parse_pin(text) == pin


@pytest.mark.parametrize("spec", [((), ("model",)), (("data", "model"),), (("a",), (), ("b", "c")), ()])
def test_pins_read_what_plans_print(spec):
    assert parse_pin(f"w={format_spec(spec)}")[1] == tuple(
        None if not axes else axes[0] if len(axes) == 1 else axes for axes in spec
    )


@pytest.mark.parametrize("text", ["w", "=None", "w=", "w=None,,model", "w=P(", "w=P(1)", "w=P(f())", "w=a b"])
def test_bad_pin(text):
    with pytest.raises(ValueError, match="is no|neither"):
        parse_pin(text)


def test_donated_by_number_and_name():
    assert parse_donated(["0", "-1", "state"]) == {"donate_argnums": (0, -1), "donate_argnames": ("state",)}
    assert parse_donated([]) == {}
