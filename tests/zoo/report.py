"""``docs/zoo.md`` from the rows that the tests noted: ``python -m tests.zoo.report`` after ``pytest tests/zoo``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.zoo.rows import KINDS, ROOT, Row, load_rows

PAGE = ROOT / "docs" / "zoo.md"

HEAD = """\
# The zoo: other projects' models, planned

A full training step of each model on a mesh of eight virtual CPU devices: three steps planned and three on one device,
from the same state. *Equal* means that losses agree to 1e-5 (relative) and the whole new state (parameters, optimizer,
statistics, random keys) to 1e-4. Sizes are tiny; the cluster's links are made so fast that splitting pays
(`tests/numerics/eager.toml`), so these are plans a large model would get, not good ones for models this small.

The page is made by `pytest tests/zoo && python -m tests.zoo.report`; the packages are in the extra `zoo`.

- *Code*: `own` where the architecture (or simulator, or learner) is the package's own code, unmodified; `layers` where
  it is put together here from the package's layers, as its users do.
- *State split*: arrays of the state that are split, of all; the part of its elements that one device holds (1/8 = 12%).
- *Batch*: the mesh axes over each dim of the batch's arrays, `-` where it is whole.
- *Collectives*: planned, for one step; loops multiply.
- *Plan*: seconds to trace and plan, rounded to 1, 2, 5 and their tens, on two busy cores.
"""

ABSENT = """\
## Not here

| what | why |
|---|---|
| recurrentgemma in the extra `zoo` | it asks for absl-py<2, OR-tools for absl-py>=2: `pip install --no-deps recurrentgemma==1.0.1` beside it |
| keras-hub in the extra `zoo` | it asks for tensorflow-text, which only its tokenizers use: `pip install --no-deps keras-hub==0.32.0` beside it |
| equimo's FasterViT | equimo 1.1.0 gives `jax.vmap` four `in_axes` for two positional arguments: `ValueError`, with or without a plan |
| equimo's SHViT | equimo 1.1.0 gives its norm over channels an array of height and width: `ValueError`, with or without a plan |
| flaxdiff's `FlaxUNet3DConditionModel` | it needs diffusers' flax classes; flaxdiff does not install diffusers |
| gemma 4 | needs Python 3.12; the tests run on 3.11 too |
| easydel 0.3.0 | asks for flax 0.12.3, and brings more than fifty packages (cloud storage, web servers) |
| keras' MobileNetV2 in training mode, 32 pixels | batch norm over eight values: a change of 1e-7 in the parameters changes the third loss by 6e-3 on one device already. It is here with fixed statistics |
| jax-md's Lennard-Jones simulation | its gradient by the parameters is not finite on one device. A Morse fluid is here |
"""

_BODY = ("package", "model", "code", "result", "state split", "batch", "collectives", "plan")


def render(rows: Sequence[Row]) -> str:
    """The page's text; the same rows give the same text."""
    count = Counter("equal" if row.equal else "not" for row in rows)
    own = sum(row.own for row in rows)
    lines = [HEAD, f"{len(rows)} models: {count['equal']} equal, {count['not']} not yet.\n"]
    lines.append(
        f"Of these, {own} are packages' own code in {len({r.package for r in rows if r.own})} packages.\n"
    )
    for mesh in sorted({row.mesh for row in rows if row.mesh}):
        lines.append(f"Mesh {mesh} (axes `data`, `model`).\n")
    lines += [_line(_BODY), _line(["---"] * len(_BODY))]
    lines += [_line(_cells(row)) for row in rows]
    return "\n".join([*lines, "", *_kinds(rows), "", ABSENT])


def _kinds(rows: Sequence[Row]) -> list[str]:
    """The models of each kind, the packages' own ones apart."""
    lines = ["## Kinds\n", _line(("kind", "own", "of layers")), _line(["---"] * 3)]
    for kind in KINDS:
        found = [
            [f"{r.package}: {r.name}" for r in rows if r.kind == kind and r.own == own]
            for own in (True, False)
        ]
        lines.append(_line((kind, *("; ".join(names) or "-" for names in found))))
    return lines


def _cells(row: Row) -> Sequence[str]:
    result = "equal" if row.equal else f"**no**: {row.reason}"
    code = "own" if row.own else "layers"
    return row.package, row.name, code, result, row.state, row.batch, row.collectives, rounded(row.plan_s)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def rounded(seconds: float) -> str:
    """Seconds in steps of 1, 2, 5, so that a page does not change with each run."""
    if seconds <= 0:
        return "-"
    steps = [digit * 10.0**power for power in range(-1, 4) for digit in (1, 2, 5)]
    return f"{min(steps, key=lambda step: abs(step - seconds)):g} s"


def main() -> int:
    """Writes the page, unless rows are missing that it has already."""
    rows = load_rows()
    shown = PAGE.read_text().count("\n| ") if PAGE.exists() else 0
    page = render(rows)
    if page.count("\n| ") < shown and "--force" not in sys.argv:
        print(f"{len(rows)} rows are fewer than {PAGE.name} has: run all of tests/zoo first, or --force")
        return 1
    PAGE.write_text(page)
    print(f"{PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE}: {len(rows)} models")
    return 0


if __name__ == "__main__":
    sys.exit(main())
