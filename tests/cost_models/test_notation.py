"""Sizes as people write them."""

import pytest

from meshwright.cost_models.notation import parse_bytes, parse_mesh


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
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["", "lots", "-1GiB", "0", "0GiB", "1 PiB", "GiB"])
def test_bad_budget(text):
    with pytest.raises(ValueError, match="amount of memory"):
        parse_bytes(text)
