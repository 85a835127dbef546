"""The child process: what it leaves is kept; limits and failures are one clear error."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import msgspec
import pytest

import meshwright as mw
from meshwright.compiler.plan import MeshSpec
from meshwright.compiler.verify import child
from meshwright.compiler.verify.child import compile_apart
from meshwright.compiler.verify.compiled import CompiledProgram
from meshwright.compiler.verify.target import CompileTarget

TARGET = CompileTarget("tpu", "v5e:2x4", 8, {})
MESH = MeshSpec((8,), ("data",))
ANSWER = CompiledProgram("tpu", "libtpu 0", 1, 2, 1, 3, 5, "HloModule m")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(child.platformdirs, "user_cache_path", lambda name: tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def worker(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    (folder / "fake_worker.py").write_text(code)
    monkeypatch.setattr(child, "_WORKER", "fake_worker")


def answering(stderr: str = "") -> str:
    body = msgspec.json.encode(ANSWER)
    return (
        "import pathlib, sys\n"
        f"print({stderr!r}, file=sys.stderr)\n"
        "count = pathlib.Path(__file__).with_name('count')\n"
        "count.write_text(str(int(count.read_text()) + 1) if count.exists() else '1')\n"
        f"pathlib.Path(sys.argv[2]).write_bytes({body!r})\n"
    )


def compiled(exported: bytes = b"program", **options: object) -> CompiledProgram:
    return compile_apart(exported, TARGET, MESH, (True, False), **options)  # pyright: ignore


def test_an_answer_is_kept_and_a_corrupt_one_ignored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker(folder, monkeypatch, answering())
    assert compiled() == ANSWER == compiled()
    assert (folder / "count").read_text() == "1"
    (kept,) = (folder / "compiled").glob("*.json")
    kept.write_bytes(kept.read_bytes()[:20])
    assert compiled() == ANSWER
    assert (folder / "count").read_text() == "2"


def test_another_program_effort_or_donation_is_another_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker(folder, monkeypatch, answering())
    compiled()
    compiled(b"other")
    compiled(fast=False)
    compile_apart(b"program", TARGET, MESH, (True, True))
    compile_apart(b"program", TARGET, MeshSpec((2, 4), ("a", "b")), (True, False))
    assert (folder / "count").read_text() == "5"


def test_full_copies_are_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker(folder, monkeypatch, answering("E spmd: Involuntary full rematerialization. %x"))
    assert compiled().warnings == ("E spmd: Involuntary full rematerialization. %x",)


def test_a_failure_ends_with_the_compilers_words(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker(folder, monkeypatch, "import sys; print('no such opcode', file=sys.stderr); sys.exit(3)")
    with pytest.raises(mw.CompilerError, match="v5e:2x4.*exit code 3") as caught:
        compiled()
    assert caught.value.last_lines == ("no such opcode",)
    assert not list((folder / "compiled").glob("*.json"))


def test_a_time_limit_ends_the_child_and_news_come(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker(folder, monkeypatch, "import time; time.sleep(60)")
    monkeypatch.setattr(child, "_NEWS_EVERY_S", 0.05)
    news: list[str] = []
    with pytest.raises(mw.CompilerError, match=r"ended after 0\.3 s"):
        compiled(time_limit_s=0.3, progress=news.append)
    assert news
    assert "v5e:2x4" in news[0]


def test_the_worker_can_be_imported() -> None:
    assert importlib.util.find_spec(child._WORKER) is not None
