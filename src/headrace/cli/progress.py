"""A job as it moves: one bar per stage on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from headrace.cli.documents import job_document
from headrace.cli.output import print_json
from headrace.cli.session import Session
from headrace.core.jobs import JobView
from headrace.core.tally import Tally


class Bars:
    """One bar per stage. A stage that may still grow shows its total with a plus, because a bar that lies is worse
    than one that waits."""

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
        )
        self.progress = Progress(*columns, console=console)
        self._tasks: dict[str, TaskID] = {}

    def show(self, stages: Mapping[str, Tally]) -> None:
        for name, tally in stages.items():
            if name not in self._tasks:
                self._tasks[name] = self.progress.add_task(name, total=None, note="")
            self.progress.update(
                self._tasks[name],
                completed=tally.ended,
                total=tally.total if tally.total or tally.closed else None,
                note=_note(tally),
            )


async def follow(session: Session, views: AsyncIterator[JobView], jsonl: bool) -> JobView:
    """Show every change; the answer is the last one."""
    view: JobView | None = None
    if jsonl or session.json or not sys.stderr.isatty():
        async for view in views:
            if jsonl:
                print_json(job_document(view))
            elif not session.json:
                session.say(_line(view))
    else:
        bars = Bars(Console(stderr=True))
        with bars.progress:
            async for view in views:
                bars.show(view.stages)
    assert view is not None
    return view


def _line(view: JobView) -> str:
    stages = "  ".join(f"{name} {tally.ended:,}/{tally.total:,}" for name, tally in view.stages.items())
    return f"{view.state.value}  {stages}"


def _note(tally: Tally) -> str:
    parts = [] if tally.sealed else ["may grow"]
    parts += [f"[red]{tally.dead:,} dead[/]"] if tally.dead else []
    parts += [f"{tally.cancelled:,} cancelled"] if tally.cancelled else []
    return ", ".join(parts)
