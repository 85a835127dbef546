"""Plan files: what is saved is loaded, and a damaged or foreign file is refused with a reason."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from meshwright.compiler.errors import MeshwrightError, PlanFormatError
from meshwright.compiler.plan import Plan, load_plan, save_plan
from meshwright.compiler.plan.io import plan_schema
from meshwright.compiler.plan.plan import FORMAT, OLDEST_VERSION, VERSION
from tests.plan.plans import plans, small_plan

ROOT = Path(__file__).parents[2]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    small_plan().save(path)
    return path


def rewrite(path: Path, **header: Any) -> None:
    """Changes the outer fields of a plan file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **header}))


def test_round_trip(saved: Path) -> None:
    loaded = Plan.load(saved)
    assert loaded == small_plan()
    assert loaded.hash == small_plan().hash


@settings(max_examples=60)
@given(plans())
def test_any_plan_survives(tmp_path_factory: pytest.TempPathFactory, plan: Plan) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    save_plan(plan, path)
    assert load_plan(path) == plan


def test_the_file_is_one_line_of_json_with_a_header(saved: Path) -> None:
    content = json.loads(saved.read_text())
    assert set(content) == {"format", "version", "checksum", "plan"}
    assert (content["format"], content["version"]) == (FORMAT, VERSION)
    assert content["plan"]["certificate"]["meshes"] == [[[2], 0.25], [[1], None]]


def test_truncated_anywhere(saved: Path) -> None:
    content = saved.read_bytes()
    for length in range(0, len(content) - 1, 64):
        saved.write_bytes(content[:length])
        with pytest.raises(PlanFormatError, match="plan.json"):
            load_plan(saved)


@pytest.mark.parametrize("flip", [0x01, 0x20, 0x80])
def test_altered_anywhere(saved: Path, flip: int) -> None:
    content = saved.read_bytes()
    # The last byte is the line's end, which says nothing.
    for place in range(0, len(content) - 1, 7):
        changed = bytearray(content)
        changed[place] ^= flip
        saved.write_bytes(bytes(changed))
        with pytest.raises(PlanFormatError, match="plan.json"):
            load_plan(saved)


def test_an_altered_number_is_found_by_the_checksum(saved: Path) -> None:
    saved.write_text(saved.read_text().replace('"num_devices":2', '"num_devices":4'))
    with pytest.raises(PlanFormatError, match="altered"):
        load_plan(saved)


def test_another_version(saved: Path) -> None:
    rewrite(saved, version=VERSION + 1)
    with pytest.raises(
        PlanFormatError, match=rf"version {VERSION + 1}.*reads versions {OLDEST_VERSION} to {VERSION}"
    ):
        load_plan(saved)


def test_another_version_with_other_contents(saved: Path) -> None:
    """The version must be told even where the record has become another."""
    rewrite(saved, version=VERSION + 1, plan={"new": "fields"}, checksum="", more=1)
    with pytest.raises(PlanFormatError, match=rf"version {VERSION + 1}"):
        load_plan(saved)


def test_version_1_is_read(saved: Path) -> None:
    """It has neither the number of values alive at the peak nor how many are equal."""
    plan = json.loads(saved.read_text())["plan"]
    del plan["memory"]["num_live"], plan["memory"]["largest"][0]["count"]
    body = json.dumps(plan, separators=(",", ":"))
    digest = hashlib.sha256(body.encode()).hexdigest()
    saved.write_text(f'{{"format":"{FORMAT}","version":1,"checksum":"{digest}","plan":{body}}}')
    loaded = load_plan(saved)
    assert loaded == small_plan()
    assert loaded.hash == small_plan().hash
    assert (loaded.memory.num_live, loaded.memory.largest[0].count) == (0, 1)


def test_another_format(saved: Path) -> None:
    rewrite(saved, format="other")
    with pytest.raises(PlanFormatError, match="'other'"):
        load_plan(saved)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b"\x00\xff", b'{"plan": 1}', b"step_time: 3"]
)
def test_no_plan_at_all(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(PlanFormatError, match="other.json"):
        load_plan(path)


def test_a_right_checksum_does_not_excuse_a_wrong_record(tmp_path: Path) -> None:
    body = '{"program":"step"}'
    path = tmp_path / "hand.json"
    digest = hashlib.sha256(body.encode()).hexdigest()
    path.write_text(f'{{"format":"{FORMAT}","version":{VERSION},"checksum":"{digest}","plan":{body}}}')
    with pytest.raises(PlanFormatError, match="schema"):
        load_plan(path)


def test_a_missing_file_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_plan(tmp_path / "nowhere.json")


def test_saving_replaces_whole_and_leaves_nothing_behind(saved: Path) -> None:
    small_plan("other").save(saved)
    assert Plan.load(saved).program == "other"
    assert os.listdir(saved.parent) == ["plan.json"]


def test_hash_tells_plans_apart() -> None:
    assert small_plan().hash == small_plan().hash
    assert small_plan("other").hash != small_plan().hash
    assert small_plan(objective_s=0.3).hash != small_plan().hash
    assert len(small_plan().hash) == 64


_ELSEWHERE = "from tests.plan.plans import small_plan; print(small_plan().hash)"


def test_hash_is_the_same_in_another_process() -> None:
    env = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE], env=env, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == small_plan().hash


def test_schema_names_every_field() -> None:
    schema: Any = plan_schema()
    record = schema["$defs"]["Plan"]
    assert set(record["properties"]) == set(Plan.__struct_fields__)
    assert set(record["required"]) == set(Plan.__struct_fields__)
    json.dumps(schema)


def test_totals() -> None:
    plan = small_plan()
    assert plan.step_time_s == 0.25
    assert plan.peak_memory_bytes == 224
    assert (plan.objective_s, plan.bound_s, plan.gap) == (0.25, 0.2, 0.2)
    assert plan.shardings == {"x": (("data",), ()), "w": ((), ())}


def test_format_errors_are_public() -> None:
    assert issubclass(PlanFormatError, MeshwrightError)
