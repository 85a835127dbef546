"""``meshwright ops``: every operation, where its sharding rule comes from, and how that is checked."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from meshwright.compiler.display.tables import plain_table

from .output import print_json, print_result
from .platform import plan_on_cpu

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from meshwright.compiler.rules.catalogue import Operation

_ORIGINS = {
    "Shardy": "the partitioner's own rule, composed where an operation lowers to several",
    "hand-written": "a rule of ours, where Shardy has none",
    "declared": "a rule of yours (`mw.register_rule`)",
    "region": "control flow and rematerialisation: planned through, body and all",
    "inlined": "a call without a meaning of its own",
    "kept": "a sharding or manual region you wrote",
    "opaque": "a call nobody can see into: replicated, priced, reported with its line; declare a rule for it",
    "replicated": "a rule without a dim that may be split (of the sample): runs whole, and is priced so",
    "manual region": "inside `shard_map` only",
    "kernel": "inside Pallas kernels only",
    "on demand": "no sample here: Shardy is asked when a program brings it; else replicated and reported",
}


def ops(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/operations.md.")] = False,
) -> None:
    """List every operation with its sharding rule and how that is checked.

    Example: meshwright ops
    """
    if json and markdown:
        raise typer.BadParameter("give --json or --markdown, not both")
    plan_on_cpu()
    from meshwright.compiler.rules.catalogue import operations

    listed = operations()
    if json:
        print_json([dataclasses.asdict(op) for op in listed])
    elif markdown:
        typer.echo(markdown_page(listed))
    else:
        print_result([_table(listed), "", f"{len(listed)} operations: {_summary(listed)}."])


def markdown_page(listed: Sequence[Operation]) -> str:
    """The text of ``docs/operations.md``, without its last line break."""
    import jax

    from meshwright.compiler.rules.catalogue import counts

    found = counts(listed)
    origins = [f"| {name} | {found.get(name, 0)} | {text} |" for name, text in _ORIGINS.items()]
    rows = [f"| `{op.name}` | {op.origin} | {_code(op)} | {_test(op)} |" for op in listed]
    return "\n".join(
        [
            "# Operations",
            "",
            f"Made by `meshwright ops --markdown` on jax {jax.__version__}: the {len(listed)} primitives a "
            "program on the CPU can hold, and the sharding rule of each.",
            "A rule is read like an einsum: letters are factors, `reduced` ones are summed (or combined) "
            "over the devices, `fixed` ones are never split.",
            "It is shown for a small sample; other parameters may have another.",
            "",
            "| rule from | operations | meaning |",
            "|---|---|---|",
            *origins,
            "",
            "*Checked* names the test that runs the operation on shards and compares with the whole; it is "
            "empty where nothing is split. "
            "`mw.check_rule` does the same for declared rules, on the user's own arrays.",
            "",
            "| operation | rule from | rule of a sample | checked |",
            "|---|---|---|---|",
            *rows,
        ]
    )


def _code(op: Operation) -> str:
    return f"`{op.rule}`" if "->" in op.rule else op.rule


def _test(op: Operation) -> str:
    return f"`{op.checked}`" if op.checked and " " not in op.checked else op.checked


def _table(listed: Sequence[Operation]) -> Table:
    table = plain_table("operation", "rule from", "rule of a sample", "checked")
    for op in listed:
        cells = (op.name, op.origin, op.rule, op.checked.rpartition("/")[2])
        table.add_row(*map(Text, cells))
    return table


def _summary(listed: Sequence[Operation]) -> str:
    from meshwright.compiler.rules.catalogue import counts

    return ", ".join(f"{count} {origin}" for origin, count in counts(listed).items())
