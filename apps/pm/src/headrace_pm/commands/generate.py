"""`headrace pm generate`: a folder of files of a network that does not exist, and what must become of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.commands import of


def register(tree: typer.Typer) -> None:
    tree.command()(generate)


def generate(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the files go, and nothing else.")],
    files: Annotated[int, typer.Option(min=1, help="How many.")] = 100,
    counters: Annotated[int, typer.Option(min=0, max=10_000_000, help="In each of them.")] = 5_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same bytes.")] = 0,
    truth: Annotated[Path | None, typer.Option(metavar="FILE", help="Write there what must be in the sinks.")] = None,
    plan: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where dictionaries and later uploads go; else DIR.plan.")
    ] = None,
    packed: Annotated[int, typer.Option(min=0, help="So many of the files are packed.")] = 0,
    half: Annotated[int, typer.Option(min=0, help="So many are cut: half uploads.")] = 0,
    corrupt: Annotated[int, typer.Option(min=0, help="So many can never be read.")] = 0,
    unknown: Annotated[int, typer.Option(min=0, help="So many are of elements that no dictionary knows.")] = 0,
    again: Annotated[int, typer.Option(min=0, help="So many are uploaded again, with other values.")] = 0,
) -> None:
    """Make the files of a network that does not exist.

    Beside them, in the plan: its dictionaries as CSV files, files.jsonl with what must become of each file, and in
    again/ what is uploaded later under the same names, with its rows in again.jsonl. The truth is a line of JSON for
    each row of pm_counter_data that the files in DIR must become.
    """
    from headrace_pm.network.generated_folder import ROWS, FolderPlan, GeneratedFolder

    session = of(context)
    beside = plan or folder.with_name(f"{folder.name}.plan")
    wanted = FolderPlan(files, counters, seed, packed, half, corrupt, unknown, again)
    counts = GeneratedFolder(wanted).write(folder, beside, truth)
    document = {
        "folder": str(folder),
        "plan": str(beside),
        "truth": str(truth) if truth else None,
        "uploads": dict(counts.outcomes),
        "rows": counts.rows,
    }
    others = "".join(f", {count:,} {outcome}" for outcome, count in counts.outcomes.items() if outcome != ROWS)
    words = f"{folder}: {counts.outcomes[ROWS]:,} uploads with {counts.rows:,} rows{others}; {beside} has the plan"
    session.answer(document, lambda console: console.print(words))
