"""`headrace silver demo`: a sample, put, consumed and reported on, with nothing to install.

The embedded store is used unless PG_DSN or --store names another database. Because a sample has real tickers in it,
a database that holds anything is left alone.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands import DemoFolder, Exit, demo_folder, of
from headrace.errors import Conflict
from headrace_silver.commands.opened_stores import opened, session_url

if TYPE_CHECKING:
    from headrace_silver.quality.values import Quality
    from headrace_silver.queue.consumer import ConsumedTasks
    from headrace_silver.sample.files import SampleTally
    from headrace_silver.sample.generator import SamplePlan
    from headrace_silver.stores.silver_store import SilverStore

DAYS = 250
ARTICLE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo did."""

    tally: SampleTally
    consumed: ConsumedTasks
    quality: Quality
    put_s: float
    consume_s: float


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    context: typer.Context,
    rows: Annotated[int, typer.Option(min=500, max=1_000_000, help="About how many rows.")] = 20_000,
    folder: DemoFolder = None,
    yes: Annotated[bool, typer.Option("--yes", help="Also into a database that holds something already.")] = False,
) -> int:
    """Make a sample, put it, consume it, and report on it.

    Runs on the embedded store, with PG_DSN or --store on that database.
    """
    session = of(context)
    stated = session_url(session, default="")
    place = None if stated != "" else demo_folder(folder, "silver")
    with opened(stated if place is None else f"sqlite:///{place / 'silver.db'}") as store:
        store.create()
        if not yes and not store.rows("put_nothing_here")[0][0]:
            raise Conflict(
                "this database holds bars, articles or tasks, and the sample might overwrite some",
                "name an empty one by PG_DSN, --store or --to, or say --yes",
            )
        shown = _run(store, rows)
    report = (place or demo_folder(folder, "silver")) / "report.html"
    _write(shown.quality, report)
    document = {
        "store": store.dialect,
        "rows": dict(shown.tally.kinds),
        "bad": dict(shown.tally.bad),
        "bars": shown.consumed.bars,
        "articles": shown.consumed.articles,
        "rejects": dict(shown.consumed.by_rule),
        "revisions": shown.consumed.revisions,
        "put_s": round(shown.put_s, 3),
        "consume_s": round(shown.consume_s, 3),
        "report": str(report),
    }
    session.answer(document, lambda console: _show(console, shown, report))
    return Exit.OK if _is_right(shown) else Exit.FAILED


def _run(store: SilverStore, rows: int) -> DemoResult:
    from headrace_silver.quality.assessment import assess
    from headrace_silver.quality.values import ReportSettings
    from headrace_silver.queue.consumer import ConsumeSettings, Mode, TaskConsumer
    from headrace_silver.queue.producer import put_tasks
    from headrace_silver.records.rules import RuleSettings
    from headrace_silver.sample.files import SampleTally, incoming
    from headrace_silver.sample.generator import sample

    tally = SampleTally()
    began = time.monotonic()
    put_tasks(store, incoming(tally.counting(sample(_plan(rows)))))
    put = time.monotonic()
    # The sample's labels are about the usual pattern, whatever is set.
    settings = replace(ConsumeSettings.read(os.environ), rules=RuleSettings())
    consumed = TaskConsumer(store, settings, Mode.DRAIN, line=lambda _: None).run()
    done = time.monotonic()
    return DemoResult(tally, consumed, assess(store, datetime.now(UTC), ReportSettings()), put - began, done - put)


def _plan(rows: int) -> SamplePlan:
    from headrace_silver.market.calendar import last_closed_day
    from headrace_silver.sample.generator import SamplePlan

    articles = int(rows * ARTICLE_SHARE)
    bars = rows - articles
    symbols = max(bars // DAYS, 10)
    return SamplePlan(last_closed_day(datetime.now(UTC)), symbols, max(bars // symbols, 1), articles)


def _is_right(shown: DemoResult) -> bool:
    """Every bad row was found by the rule it breaks, and nothing else was refused."""
    return not shown.consumed.failed and dict(shown.consumed.by_rule) == dict(shown.tally.bad)


def _write(quality: Quality, path: Path) -> None:
    from headrace.pages import save
    from headrace_silver.report.page import page

    save(page(quality), path)


def _show(console: Any, shown: DemoResult, report: Path) -> None:
    from headrace_silver.report.terminal import show

    tally, consumed = shown.tally, shown.consumed
    show(shown.quality, console)
    console.print(f"put       {tally.kinds.total():,} tasks in {shown.put_s:.1f} s, {tally.bad.total():,} of them bad")
    console.print(
        f"consumed  {consumed.bars:,} bars, {consumed.articles:,} articles, {consumed.rejects:,} rejects "
        f"in {shown.consume_s:.1f} s, {consumed.batches:,} batches"
    )
    found = "every bad row by the rule it breaks" if _is_right(shown) else "[red]not what the sample was made of[/]"
    console.print(f"rejected  {found}")
    console.print(f"report    {report.resolve().as_uri()}", soft_wrap=True)
