"""The program in docs/rules.md runs as it stands, and its rule is checked."""

import re
from pathlib import Path

import pytest

import meshwright as mw

DOCS = Path(__file__).parents[2] / "docs"


def test_the_documented_rule_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(
        r"```python\n(.*?)```", (DOCS / "rules.md").read_text(encoding="utf-8"), re.DOTALL
    )
    try:
        exec(compile(program, "rules.md", "exec"), {"__name__": "rules"})
    finally:
        mw.unregister_rule("row_softmax")
    assert "row_softmax" in capsys.readouterr().out
