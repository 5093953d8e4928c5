"""Views as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headrace.cli.documents import moment, payload_line, second
from headrace.cli.lists import Column, print_list, short_ids
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


def print_jobs(console: Console, jobs: Sequence[JobView]) -> None:
    wholes = [sum(job.stages.values(), Tally()) for job in jobs]
    words = ["paused" if job.paused and job.ended_at is None else job.state.value for job in jobs]
    at = [job.submitted_at for job in jobs]
    columns = [
        Column("job", [job.id for job in jobs], short_ids([job.id for job in jobs])),
        Column("flow", [escape(job.flow) for job in jobs]),
        Column("state", [state(word) for word in words]),
        Column("done", [f"{whole.done:,}" for whole in wholes]),
        Column("dead", [f"{whole.dead:,}" for whole in wholes]),
        Column("total", [f"{whole.total:,}" for whole in wholes]),
        Column("submitted", [moment(each) or "" for each in at], [second(each) for each in at], spare=1),
    ]
    print_list(console, columns)


def job_page(console: Console, job: JobView, finishes: Sequence[Mapping[str, Any]]) -> None:
    word = "paused" if job.paused and job.ended_at is None else job.state.value
    console.print(f"[bold]{job.id}[/]  {escape(job.flow)}  {state(word)}  generation {job.generation}")
    key = f"  key {escape(job.key)}" if job.key else ""
    console.print(f"tenant {escape(job.tenant)}  priority {job.priority}  submitted {moment(job.submitted_at)}{key}")
    print_stages(console, job.stages)
    for finish in finishes:
        crossed = finish["crossed_at"]
        console.print(f"finish line of generation {finish['generation']}: {state(finish['state'])} at {crossed}")


def print_stages(console: Console, stages: Mapping[str, Tally]) -> None:
    tallies = list(stages.values())
    columns = [
        Column("stage", [escape(name) for name in stages], folds=True),
        Column("waiting", [f"{tally.waiting:,}" for tally in tallies]),
        Column("held", [f"{tally.held:,}" for tally in tallies]),
        Column("done", [f"{tally.done:,}" for tally in tallies]),
        Column("dead", [f"{tally.dead:,}" for tally in tallies]),
        Column("cancelled", [f"{tally.cancelled:,}" for tally in tallies], spare=1),
        Column("total", [f"{tally.total:,}" for tally in tallies]),
        Column("", ["closed" if tally.closed else "sealed" if tally.sealed else "" for tally in tallies]),
    ]
    print_list(console, columns)


def print_items(console: Console, items: Sequence[ItemView]) -> None:
    columns = [
        Column("stage", [escape(item.stage) for item in items]),
        Column("seq", [str(item.seq) for item in items]),
        Column("key", [escape(item.key or "") for item in items], spare=1),
        Column("state", [state(item.state) for item in items]),
        Column("retries", [str(item.retries) for item in items]),
        Column("payload", [escape(payload_line(item.payload)) for item in items], folds=True),
    ]
    if any(item.due_at for item in items):
        at = ["" if item.due_at is None else second(item.due_at) for item in items]
        columns.insert(4, Column("due", at))
    print_list(console, columns)


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


def print_letters(console: Console, letters: Sequence[DeadView]) -> None:
    at = [dead.died_at for dead in letters]
    # What a handler raised says as much as its reason, and more; some have died without.
    errors = [dead.error.partition("\n")[0] or dead.reason for dead in letters]
    columns = [
        Column("job", [dead.job for dead in letters], short_ids([dead.job for dead in letters])),
        Column("stage", [escape(dead.stage) for dead in letters]),
        Column("seq", [str(dead.seq) for dead in letters]),
        Column("key", [escape(dead.key or "") for dead in letters], spare=2),
        Column("rule", [escape(dead.rule) for dead in letters]),
        Column("reason", [escape(dead.reason) for dead in letters], spare=4, folds=True),
        Column("error", [escape(error) for error in errors], folds=True),
        Column("attempts", [str(dead.attempts) for dead in letters], spare=3),
        Column("died", [moment(each) or "" for each in at], [second(each) for each in at], spare=1),
        Column("fingerprint", [dead.fingerprint for dead in letters], spare=5),
    ]
    print_list(console, columns)
