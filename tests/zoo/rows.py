"""What the zoo notes about each model: a JSON file a test, so that parallel test workers do not meet."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".cache" / "zoo"


KINDS = (
    "transformer decoder, scanned layers",
    "encoder-decoder, tied embeddings, relative bias",
    "vision transformer",
    "ConvNet, batch norm",
    "U-Net",
    "diffusion",
    "mixture of experts",
    "state space or linear recurrence",
    "graph network",
    "several optimizers: GAN, actor and critic",
    "energy, gradient of a gradient",
    "recurrent network",
    "recommendation, large tables",
    "physics simulation",
    "normalizing flow",
    "neural operator",
    "reinforcement learning",
)
"""The kinds of model that the zoo is to have, in the page's order."""


@dataclass
class Row:
    """One model's line in ``docs/zoo.md``; filled as the test goes on.

    Attributes:
        package: what the model is from.
        name: the architecture.
        own: whether the architecture is the package's own code; else it is made here of the package's layers.
        kind: which of ``KINDS`` it stands for, if any.
        mesh: logical mesh of the plan.
        state: how many of the state's arrays are split, and the part of the elements that a device holds.
        batch: distinct shardings of the batch's arrays.
        collectives: how many of each kind the plan has, for one step.
        plan_s: seconds to trace and plan.
        equal: whether losses and state equal one device's.
        reason: why not.
    """

    package: str
    name: str
    own: bool = False
    kind: str = ""
    mesh: str = ""
    state: str = ""
    batch: str = ""
    collectives: str = ""
    plan_s: float = 0.0
    equal: bool = False
    reason: str = ""


def save_row(row: Row, folder: Path = FOLDER) -> None:
    """Writes the row, whole or not at all; the model's own file is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (re.sub(r"[^a-z0-9]+", "_", f"{row.package}_{row.name}".lower()) + ".json")
    partial = path.with_suffix(f".{os.getpid()}.part")
    partial.write_text(json.dumps(dataclasses.asdict(row), indent=1))
    partial.replace(path)


def load_rows(folder: Path = FOLDER) -> list[Row]:
    """All rows noted so far, by package and name."""
    rows = [Row(**json.loads(path.read_text())) for path in folder.glob("*.json")]
    return sorted(rows, key=lambda row: (row.package.lower(), row.name.lower()))
