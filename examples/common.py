"""What the examples share: virtual devices, real data, a training loop, and the comparison of two runs.

Nothing here is part of meshwright; it is the code any training script has around its step.
"""

import math
import os
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import meshwright as mw

console = Console()
_COUNT_FLAG = "xla_force_host_platform_device_count"

# Two float32 programs that sum in another order agree to rounding at first; training then amplifies it.
CHECKED_STEPS = 20
STEP_TOLERANCE = 1e-5
FINAL_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Run:
    """One training run.

    Attributes:
        label: how the table names it.
        losses: the loss at every step.
        seconds: wall time of all steps but the first, which compiles.
        state: the state after the last step.
    """

    label: str
    losses: tuple[float, ...]
    seconds: float
    state: Any


def run(main: Callable[..., None]) -> None:
    """Runs an example's command line; what its user can mend is a message and exit code 2, no traceback."""
    try:
        typer.run(main)
    except mw.MeshwrightError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def use_virtual_devices(cluster: str) -> None:
    """Gives jax as many virtual CPU devices as a cluster of CPUs has; other clusters are left alone.

    Call it before anything asks jax for a device. A count already set in XLA_FLAGS stands.
    """
    loaded = mw.Cluster.load(cluster)
    if loaded.hardware.kind == "cpu" and _COUNT_FLAG not in os.environ.get("XLA_FLAGS", ""):
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", loaded.num_devices)


@lru_cache(maxsize=1)
def stdlib_text(limit_bytes: int = 6_000_000) -> tuple[np.ndarray, np.ndarray]:
    """Reads the sources of Python's standard library, which every machine has.

    Files are taken in sorted order up to `limit_bytes`; every tenth is held out, so no file is in both parts.

    Returns:
        Training and held-out bytes, uint8 of shape [n] each.
    """
    root = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(p for p in root.glob("*.py")) + sorted(
        p for p in root.glob("[a-z]*/*.py") if _is_source(p)
    )
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    total = 0
    for index, path in enumerate(files):
        content = path.read_bytes()
        total += len(content)
        if total > limit_bytes:
            break
        parts[index % 10 == 9].append(content)
    train, held_out = (np.frombuffer(b"".join(part), np.uint8) for part in parts)
    return train, held_out


def _is_source(path: Path) -> bool:
    return path.parent.name not in {
        "test",
        "tests",
        "idlelib",
        "site-packages",
        "dist-packages",
        "pydoc_data",
    }


def text_batches(
    text: np.ndarray, batch: int, length: int, count: int, seed: int
) -> list[dict[str, np.ndarray]]:
    """Draws `count` batches of random windows: `inputs` and `targets`, int32 [batch, length] each."""
    rng = np.random.default_rng(seed)
    starts = rng.integers(0, len(text) - length - 1, size=(count, batch, 1))
    windows = text[starts + np.arange(length + 1)].astype(np.int32)
    return [{"inputs": w[:, :-1], "targets": w[:, 1:]} for w in windows]


def digits() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Loads scikit-learn's 1,797 scanned digits.

    Returns:
        Training and held-out sets (1,500 and 297 digits): `image` float32 [n, 8, 8, 1] in -1..1,
        `label` int32 [n].
    """
    from sklearn.datasets import load_digits

    images, labels = (np.asarray(part) for part in load_digits(return_X_y=True))
    order = np.random.default_rng(0).permutation(len(images))
    image = (images[order].reshape(-1, 8, 8, 1) / 8 - 1).astype(np.float32)
    label = labels[order].astype(np.int32)
    return {"image": image[:1500], "label": label[:1500]}, {"image": image[1500:], "label": label[1500:]}


def digit_batches(
    data: dict[str, np.ndarray], batch: int, count: int, seed: int
) -> list[dict[str, np.ndarray]]:
    """Draws `count` batches of `batch` digits with replacement."""
    rows = np.random.default_rng(seed).integers(0, len(data["label"]), size=(count, batch))
    return [{name: value[chosen] for name, value in data.items()} for chosen in rows]


def show_plan(plan: Any) -> None:
    """Prints the plan's table; a wide one is not folded."""
    console.print(str(plan), markup=False, highlight=False, soft_wrap=True)


def train(
    label: str,
    step: Callable[[Any, Any], tuple[Any, dict[str, jax.Array]]],
    state: Any,
    batches: Sequence[Any],
    items_per_step: int,
    unit: str,
) -> Run:
    """Runs `step` over all batches with a progress bar that shows the loss and the speed."""
    losses: list[float] = []
    start = time.perf_counter()
    with _progress() as progress:
        task = progress.add_task(label, total=len(batches), loss=math.nan, speed="compiling")
        for batch in batches:
            state, metrics = step(state, batch)
            losses.append(float(metrics["loss"]))
            if len(losses) == 1:
                start = time.perf_counter()
            speed = _speed((len(losses) - 1) * items_per_step, time.perf_counter() - start, unit)
            progress.update(task, advance=1, loss=losses[-1], speed=speed)
    return Run(label, tuple(losses), time.perf_counter() - start, state)


def _speed(items: int, seconds: float, unit: str) -> str:
    return f"{items / seconds:,.0f} {unit}/s" if items else "compiled"


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description:<24}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        console=console,
    )


def agree(planned: Run, single: Run, results: Iterable[tuple[str, float, float]] = ()) -> bool:
    """Prints both runs side by side and says whether they are the same computation.

    The first `CHECKED_STEPS` losses must agree to `STEP_TOLERANCE` (relative). After that the rounding of two
    summation orders grows as training goes on, so the last loss and the `results` (name, planned, single) are
    held to `FINAL_TOLERANCE`.
    """
    count = len(planned.losses)
    shown = sorted({0, *(step - 1 for step in (5, 10, 20, *_fifths(count)) if 0 < step <= count)})
    rows = [(f"loss {i + 1}", planned.losses[i], single.losses[i]) for i in shown] + list(results)
    console.print(_comparison(planned, single, rows))
    differences = [relative(a, b) for a, b in zip(planned.losses, single.losses, strict=True)]
    early = max(differences[:CHECKED_STEPS])
    late = max([differences[-1], *(relative(a, b) for _, a, b in rows[len(shown) :])])
    same = early <= STEP_TOLERANCE and late <= FINAL_TOLERANCE
    console.print(
        "The runs agree." if same else "[bold red]The runs disagree.[/]", "Largest relative difference:"
    )
    console.print(
        f"  {early:.1e} in the first {min(CHECKED_STEPS, count)} steps (limit {STEP_TOLERANCE:.0e})"
    )
    console.print(
        f"  {late:.1e} at the end (limit {FINAL_TOLERANCE:.0e}), {max(differences):.1e} in all steps"
    )
    return same


def _fifths(count: int) -> list[int]:
    return [count * part // 5 for part in range(1, 6)]


def relative(a: float, b: float) -> float:
    """The difference of two numbers relative to the larger; infinite when one is not finite."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    return abs(a - b) / max(abs(a), abs(b), 1e-30)


def _comparison(planned: Run, single: Run, rows: Sequence[tuple[str, float, float]]) -> Table:
    table = Table(title="The same run, planned and on one device")
    for name in ("", planned.label, single.label, "relative difference"):
        table.add_column(name, justify="right" if name else "left")
    for name, a, b in rows:
        table.add_row(name, f"{a:.6f}", f"{b:.6f}", f"{relative(a, b):.1e}")
    table.add_row("seconds", f"{planned.seconds:.1f}", f"{single.seconds:.1f}", "")
    return table
