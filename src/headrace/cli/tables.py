"""Views as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headrace.cli.documents import moment, payload_line
from headrace.core.jobs import DeadView, ItemView, JobView
from headrace.core.tally import Tally

_STATE_STYLES = {
    "open": "cyan",
    "finished": "green",
    "done": "green",
    "failed": "red",
    "dead": "red",
    "cancelled": "yellow",
}


def state(word: str) -> str:
    style = _STATE_STYLES.get(word)
    return f"[{style}]{word}[/]" if style else word


def plain_table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        # An id is there to be copied: other columns give way first.
        table.add_column(column, no_wrap=column in ("job", "seq"))
    return table


def job_table(jobs: Sequence[JobView]) -> Table:
    table = plain_table("job", "flow", "state", "done", "dead", "total", "submitted")
    for job in jobs:
        whole = sum(job.stages.values(), Tally())
        word = "paused" if job.paused and job.ended_at is None else job.state.value
        counts = (f"{whole.done:,}", f"{whole.dead:,}", f"{whole.total:,}")
        table.add_row(job.id, escape(job.flow), state(word), *counts, moment(job.submitted_at))
    return table


def job_page(console: Console, job: JobView, finishes: Sequence[Mapping[str, Any]]) -> None:
    word = "paused" if job.paused and job.ended_at is None else job.state.value
    console.print(f"[bold]{job.id}[/]  {escape(job.flow)}  {state(word)}  generation {job.generation}")
    key = f"  key {escape(job.key)}" if job.key else ""
    console.print(f"tenant {escape(job.tenant)}  priority {job.priority}  submitted {moment(job.submitted_at)}{key}")
    console.print(stage_table(job.stages))
    for finish in finishes:
        crossed = finish["crossed_at"]
        console.print(f"finish line of generation {finish['generation']}: {state(finish['state'])} at {crossed}")


def stage_table(stages: Mapping[str, Tally]) -> Table:
    table = plain_table("stage", "waiting", "held", "done", "dead", "cancelled", "total", "")
    for name, tally in stages.items():
        word = "closed" if tally.closed else "sealed" if tally.sealed else ""
        counts = (tally.waiting, tally.held, tally.done, tally.dead, tally.cancelled, tally.total)
        table.add_row(escape(name), *(f"{count:,}" for count in counts), word)
    return table


def item_table(items: Sequence[ItemView]) -> Table:
    table = plain_table("stage", "seq", "key", "state", "attempts", "payload")
    for item in items:
        cells = (escape(item.stage), str(item.seq), escape(item.key or ""), state(item.state), str(item.attempts))
        table.add_row(*cells, escape(payload_line(item.payload)))
    return table


def dead_page(console: Console, dead: DeadView) -> None:
    """One dead letter with all that is known of it."""
    console.print(
        f"[bold]{dead.job}[/]  {escape(dead.stage)}/{dead.seq}  {state('dead')}  generation {dead.generation}"
    )
    key = f"  key {escape(dead.key)}" if dead.key else ""
    console.print(f"died {moment(dead.died_at)}  attempts {dead.attempts}{key}  fingerprint {dead.fingerprint}")
    rule = f"  rule {escape(dead.rule)}" if dead.rule else ""
    console.print(f"reason {escape(dead.reason)}{rule}")
    console.print(f"payload {escape(payload_line(dead.payload))}")
    # The words of an error are copied and searched for: they are not wrapped, and nothing in them is a style.
    console.print(dead.traceback or dead.error, markup=False, highlight=False, soft_wrap=True)


def dead_table(letters: Sequence[DeadView]) -> Table:
    table = plain_table("job", "stage", "seq", "key", "rule", "reason", "error", "attempts", "died", "fingerprint")
    for dead in letters:
        table.add_row(
            dead.job,
            escape(dead.stage),
            str(dead.seq),
            escape(dead.key or ""),
            escape(dead.rule),
            escape(dead.reason),
            escape(dead.error.partition("\n")[0]),
            str(dead.attempts),
            moment(dead.died_at),
            dead.fingerprint,
        )
    return table
