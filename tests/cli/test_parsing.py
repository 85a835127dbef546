"""Values of options."""

import pytest

from meshwright.cli.parsing import parse_donated, parse_pin
from meshwright.compiler.display.units import format_spec


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
