"""Stock-market silver layer: put, consume, redrive, report.

`headrace silver …`. What a command needs is imported when it runs.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from headrace.commands import Exit, command_group, of
from headrace.errors import CallerError
from headrace_silver.commands import dead, demo, market, put, report
from headrace_silver.commands.opened_stores import opened, opened_store, session_url
from headrace_silver.stores.silver_store import FLAG

HELP = (__doc__ or "").partition("\n")[0]


def register(tree: typer.Typer) -> None:
    """The entry point: add `silver` to the commands of headrace."""
    app = command_group("silver", HELP)
    app.command()(init)
    put.register(app)
    app.command()(consume)
    app.command()(flag)
    app.command()(rules)
    app.command()(doctor)
    dead.register(app)
    report.register(app)
    market.register(app)
    demo.register(app)
    tree.add_typer(app)


def init(context: typer.Context) -> None:
    """Make the tables that are missing.

    What is there stays. Works on PG_DSN or --store, else on the file silver.db of this directory.
    """
    session = of(context)
    with opened(session_url(session)) as store:
        store.create()
        dialect = store.dialect
    session.answer({"dialect": dialect}, lambda console: console.print(f"the tables are there ({dialect})"))


def doctor(context: typer.Context) -> int:
    """Check the tables, the flag, who holds the lock, and the pattern of symbols.

    Exit code 1 if anything is bad. Changes nothing.
    """
    from headrace.commands import answer_checks
    from headrace_silver.quality.health import examine
    from headrace_silver.records.rules import RuleSettings

    session = of(context)
    with opened_store(session) as store:
        return answer_checks(session, examine(store, datetime.now(UTC), RuleSettings.read(os.environ).symbol_pattern))


def rules(context: typer.Context) -> None:
    """List the rules in the order in which they are asked."""
    from headrace_silver.records.rules import RULES, RuleSettings

    session = of(context)
    pattern = RuleSettings.read(os.environ).symbol_pattern
    listed = [{"id": rule.id, "kind": rule.kind, "sentence": rule.sentence} for rule in RULES]

    def show(console: Any) -> None:
        from headrace.commands import plain_table

        table = plain_table("rule", "kind", "sentence")
        for rule in RULES:
            table.add_row(rule.id, rule.kind, rule.sentence)
        console.print(table, markup=False)
        console.print(f"symbols match {pattern}", markup=False)

    session.answer({"symbol_pattern": pattern, "rules": listed}, show)


def consume(
    context: typer.Context,
    drain: Annotated[bool, typer.Option("--drain", help="Until the queue is empty.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="For ever; a signal ends it after the batch.")] = False,
) -> int:
    """Consume one batch of the queue, all of it, or for ever.

    The same as `python -m worker.main silver_consume`, also on the embedded store. BATCH_SIZE, BACKLOG_THRESHOLD and
    SILVER_SYMBOL_PATTERN are read from the environment. Exit code 1 if a batch was rolled back.
    """
    from headrace_silver.queue.consumer import ConsumeSettings, Mode, TaskConsumer, tell

    session = of(context)
    if drain and follow:
        raise CallerError("--drain ends and --follow does not", "choose one")
    mode = Mode.DRAIN if drain else Mode.FOLLOW if follow else Mode.ONE
    settings = ConsumeSettings.read(os.environ)
    with opened_store(session) as store:
        # With --json stdout holds one document, so the worker's lines become talk.
        consumed = TaskConsumer(store, settings, mode, line=session.say if session.json else tell).run()
    counts = (f"{consumed.bars:,} bars", f"{consumed.articles:,} articles", f"{consumed.rejects:,} rejects")
    document = {**asdict(consumed), "by_rule": dict(consumed.by_rule)}
    session.answer(document, lambda console: console.print(f"{consumed.batches:,} batches: {', '.join(counts)}"))
    return Exit.FAILED if consumed.failed else Exit.OK


def flag(
    context: typer.Context,
    wait: Annotated[bool, typer.Option("--wait", help="Until the flag is off: to be called before scraping.")] = False,
    timeout: Annotated[float | None, typer.Option(min=0, help="Wait at most this many seconds; then exit 6.")] = None,
    count: Annotated[bool, typer.Option("--count", help="Also the exact backlog, which takes its time.")] = False,
) -> None:
    """Say whether producers should slow down, or wait.

    This is SCRAPE_SLOW. A flag that nobody ever wrote is off.
    """
    from headrace_silver.queue.backlog_flag import read_flag, wait_until_off

    session = of(context)
    if timeout is not None and not wait:
        raise CallerError("--timeout is for --wait", "headrace silver flag --wait --timeout 60")
    with opened_store(session) as store:
        state = wait_until_off(store, timeout) if wait else read_flag(store)
        ready = store.rows("put_backlog")[0][0] if count else None
    at = state.updated_at.isoformat(timespec="seconds") if state.updated_at else None
    document = {"name": FLAG, "value": state.on, "updated_at": at, **({"ready": ready} if count else {})}
    words = f"{FLAG} {'on' if state.on else 'off'}, {f'written {at}' if at else 'never written'}"
    backlog = f", {ready:,} tasks ready" if ready is not None else ""
    session.answer(document, lambda console: console.print(words + backlog))
