"""`headrace silver report`, `late`, `revisions`, `export`: how good the data is, and the data itself."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.commands import Exit, Session, of
from headrace.errors import CallerError
from headrace_silver.commands.opened_stores import opened_store

if TYPE_CHECKING:
    from rich.console import Console

    from headrace_silver.quality.late_symbols import Late
    from headrace_silver.quality.parquet_export import Exported

VERSIONS_MAX = 1_000
_STOPPED = "After how many trading days without a bar a symbol has stopped."


def register(app: typer.Typer) -> None:
    """Add these commands to `headrace silver`."""
    for command in (report, late, revisions, export):
        app.command()(command)


def report(
    context: typer.Context,
    days: Annotated[int, typer.Option(min=1, max=2_500, help="How many trading days to look at.")] = 250,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write one self-contained page.")] = None,
    exchange: Annotated[
        str | None, typer.Option(help="HOSE, HNX or UPCOM, for symbols of which silver market does not know it.")
    ] = None,
    stopped_after: Annotated[int, typer.Option(min=1, help=_STOPPED)] = 20,
    language: Annotated[str, typer.Option(help="The language of the page: en or vi.")] = "en",
) -> None:
    """How fresh, complete and valid the data is.

    And what was revised, rejected or looks odd, symbol by symbol and day by day, in the terminal or as a page.
    Prices outside the daily band or between the ticks of the exchange are warnings: adjusted prices and corporate
    actions that `headrace silver market actions` was not told of cause them, too.
    """
    from headrace.pages import save
    from headrace_silver.market.price_bands import UNKNOWN
    from headrace_silver.quality import assessment
    from headrace_silver.quality.values import ReportSettings
    from headrace_silver.records.rules import RuleSettings
    from headrace_silver.report import terminal
    from headrace_silver.report.document import document
    from headrace_silver.report.page import page
    from headrace_silver.report.words import TEXTS

    session = of(context)
    if language not in TEXTS.languages:
        raise CallerError(f"there is no page in {language!r}", f"--language {' or '.join(TEXTS.languages)}")
    named = exchange.upper() if exchange else UNKNOWN
    settings = ReportSettings(days, stopped_after, named, RuleSettings.read(os.environ).symbol_pattern)
    with opened_store(session) as store:
        found = assessment.assess(store, datetime.now(UTC), settings)
    if html is not None:
        try:
            save(page(found, TEXTS.of(language)), html)
        except OSError as error:
            raise CallerError(f"{html} cannot be written: {error}", "name another file by --html") from error
        session.say(f"→ {html}")
    # With --json nothing but the document goes to stdout.
    session.answer(document(found), lambda console: terminal.show(found, console))


def late(
    context: typer.Context,
    days: Annotated[int, typer.Option(min=1, help="How many trading days behind is late.")] = 1,
    stopped_after: Annotated[int, typer.Option(min=1, help=_STOPPED)] = 20,
    alert: Annotated[
        bool, typer.Option("--alert", help="Tell people, once for each symbol and day: SILVER_LATE_COMMAND, _WEBHOOK.")
    ] = False,
) -> int:
    """Which symbols lack their latest bar.

    That of the last trading day whose session is over: run it before the market opens. Exit code 1 if there are any,
    or if there is no bar at all. Symbols that stopped trading are listed apart.
    """
    from headrace_silver.quality import late_alerts, late_symbols

    session = of(context)
    channels = late_alerts.AlertSettings.read(os.environ).channels() if alert else None
    with opened_store(session) as store:
        found = late_symbols.late(store, datetime.now(UTC), days, stopped_after)
        alerted = late_alerts.alert(store, found, channels) if channels else None
    if alerted is not None:
        session.say(
            f"people were told of {len(alerted):,} of {len(found.late):,}" if alerted else "nothing new to tell"
        )
    session.answer(
        {**late_symbols.document(found), **({} if alerted is None else {"alerted": alerted})},
        lambda console: _show_late(console, found),
    )
    return Exit.OK if found.ok else Exit.FAILED


def revisions(
    context: typer.Context,
    symbol: Annotated[str, typer.Argument(help="Whose bars.")],
    day: Annotated[
        datetime | None, typer.Argument(metavar="[DATE]", formats=["%Y-%m-%d"], help="Only this day.")
    ] = None,
    most: Annotated[int, typer.Option(min=1, max=VERSIONS_MAX, help="How many earlier versions at most.")] = 100,
) -> None:
    """What bars were before they were overwritten."""
    from headrace_silver.quality import revisions

    session = of(context)
    with opened_store(session) as store:
        found = revisions.versions(store, symbol, day.date() if day else None, most)
    session.answer(revisions.document(symbol, found), lambda console: revisions.show(symbol, found, console))


def export(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Where the files go; it is made if it is not there.")],
    table: Annotated[
        list[str] | None, typer.Option(help="bars, articles, revisions or letters; repeatable, all without it.")
    ] = None,
) -> None:
    """Write Parquet files for notebooks.

    Bars by year, articles, revisions of bars, dead letters. Files of an earlier export in the same folder are
    replaced, each at once when it is whole.
    """
    from headrace_silver.quality import parquet_export

    session = of(context)
    with opened_store(session) as store:
        written = parquet_export.export(store, folder, list(dict.fromkeys(table or parquet_export.TABLES)))
    _answer_export(session, written)


def _answer_export(session: Session, written: list[Exported]) -> None:
    def show(console: Console) -> None:
        for entry in written:
            console.print(f"{entry.path}  {entry.rows:,} rows", markup=False, soft_wrap=True)

    files = [{"table": entry.table, "path": str(entry.path), "rows": entry.rows} for entry in written]
    session.answer({"files": files}, show)


def _show_late(console: Console, found: Late) -> None:
    from headrace.pages import plain
    from headrace_silver.report.text import TEXT_CHARS_MAX, counted, note_text
    from headrace_silver.report.words import ENGLISH

    if not found.known:
        console.print("there is no bar of any symbol that still trades")
    elif found.late:
        console.print(f"{len(found.late):,} of {counted(found.known, 'symbol')} lack a bar for {found.day}:")
        for entry in found.late:
            behind = counted(entry.behind, "trading day")
            console.print(
                f"  {plain(entry.symbol, TEXT_CHARS_MAX)}  last bar {entry.last_day}, {behind} behind", markup=False
            )
    else:
        console.print(f"{counted(found.known, 'symbol')}, none late: all have the bar for {found.day}")
    if found.stopped:
        console.print(
            f"stopped: {', '.join(plain(entry.symbol, TEXT_CHARS_MAX) for entry in found.stopped)}", markup=False
        )
    for note in found.notes:
        console.print(f"note: {note_text(ENGLISH, note)}", markup=False)
