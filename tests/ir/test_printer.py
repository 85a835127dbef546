"""The canonical text: a golden file, equal texts for equal programs, nothing in it that changes by run.

``UPDATE_GOLDEN=1 python -m pytest tests/ir`` writes the golden files anew; look at the difference before
committing it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from meshwright.compiler.frontend import TraceOptions, trace_program
from meshwright.compiler.ir import TensorType, format_graph, format_program
from meshwright.compiler.ir.printer import format_params
from tests.ir.programs import layered_program

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).parents[2]


def text_of(fun, *args) -> str:
    return format_program(trace_program(fun, TraceOptions(), args, {}))


def compare_with_golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text(), f"{path} differs; UPDATE_GOLDEN=1 writes it anew"


def test_text_of_a_program_with_all_regions() -> None:
    text = str(layered_program()).replace(str(ROOT) + "/", "")
    compare_with_golden("layered_step.txt", text)


def test_two_traces_print_the_same() -> None:
    assert format_program(layered_program()) == format_program(layered_program())


def test_sources_can_be_left_out() -> None:
    text = format_program(layered_program(), sources=False)
    assert "programs.py" not in text
    assert "#" in format_program(layered_program())
    assert "#" not in text


def test_region_text_stands_alone() -> None:
    (scan,) = [n for n in layered_program().graph.nodes if n.op == "scan"]
    lines = format_graph(scan.regions[0]).splitlines()
    assert lines[0].startswith("(%")
    assert lines[-1] == "}"
    assert any(line.strip().startswith("yield ") for line in lines)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: jnp.zeros(4).at[jnp.argsort(x)].add(x),
        lambda x: jax.lax.reduce(x, 0.0, jax.lax.add, (0,)),
        lambda x: jax.checkpoint(jnp.sin, policy=jax.checkpoint_policies.dots_saveable)(x),
        lambda x: jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct((4,), "float32"), x),
        lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (2,), (1,), "SAME"),
        lambda x: jax.lax.sort(x) + jax.nn.softplus(jax.nn.relu(x)),
    ],
    ids=["scatter", "reduce", "policy", "callback", "window", "sort"],
)
def test_no_addresses_in_parameters(fun) -> None:
    text = text_of(fun, jax.ShapeDtypeStruct((4,), "float32"))
    assert not re.search(r"0x[0-9a-f]{6,}", text), text


_HASHED = """
from tests.ir.programs import layered_program
print(layered_program())
"""


def test_text_does_not_depend_on_the_hash_seed() -> None:
    texts = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        run = subprocess.run(
            [sys.executable, "-c", _HASHED], env=env, cwd=ROOT, capture_output=True, text=True, check=True
        )
        texts.add(run.stdout)
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("type_", "text", "size_bytes"),
    [
        (TensorType((), "float32", 4), "f32[]", 4),
        (TensorType((2, 3), "bfloat16", 2), "bf16[2,3]", 12),
        (TensorType((5,), "bool", 1), "bool[5]", 5),
        (TensorType((0, 7), "int32", 4), "i32[0,7]", 0),
        (TensorType((2,), "float8_e4m3fn", 1), "float8_e4m3fn[2]", 2),
    ],
)
def test_types_print_short_and_count_bytes(type_: TensorType, text: str, size_bytes: int) -> None:
    assert str(type_) == text
    assert type_.bytes == size_bytes


def test_array_parameters_count_by_content() -> None:
    """A numpy scalar or a long array as a parameter neither breaks the text nor looks like another."""
    first, second = np.zeros(5000, np.int32), np.zeros(5000, np.int32)
    second[2500] = 1
    texts = {format_params({"table": table, "dimension": np.int64(1)}) for table in (first, second)}
    assert len(texts) == 2
    assert all("dimension=int64[]:1" in text for text in texts)
