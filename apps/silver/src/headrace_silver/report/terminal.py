"""The quality report for people at a terminal: what is wrong, how many, since when, and the evidence.

`document` (for scripts) and `page` (for a browser) say the same; all three read one `Quality`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from headrace.commands import Column, print_list
from headrace.pages import plain
from headrace_silver.quality.values import MISSING, NOTHING, PRESENT, REJECTED, REVISED, WARNED, Quality, SymbolQuality
from headrace_silver.report.text import (
    TEXT_CHARS_MAX,
    binned,
    counted,
    duration,
    gaps_text,
    headline,
    late_text,
    note_text,
    signed_percent,
)
from headrace_silver.report.words import ENGLISH

ROWS_MAX = 12
STRIP_DAYS = 40
_SPARKS = " ▁▂▃▄▅▆▇█"
_BINS = 30
# Shape and colour: a terminal without colour shows the same.
_MARKS = {
    NOTHING: (" ", ""),
    PRESENT: ("▪", "green"),
    MISSING: ("×", "red"),
    REJECTED: ("#", "magenta"),
    REVISED: ("r", "cyan"),
    WARNED: ("!", "yellow"),
}


def show(quality: Quality, console: Console) -> None:
    """Print the report."""
    good, sentence = headline(ENGLISH, quality)
    console.print(Text(("✓ " if good else "! ") + sentence, "bold green" if good else "bold yellow"))
    revisions = sum(entry.revisions for entry in quality.symbols)
    console.print(
        f"{quality.days[0]} to {quality.last_closed} · {counted(len(quality.days), 'trading day')} · "
        f"{counted(len(quality.active), 'symbol')} trading, {len(quality.stopped):,} stopped · "
        f"{counted(revisions, 'revision')} · {counted(len(quality.band_breaks), 'band warning')} · "
        f"{counted(quality.articles.articles, 'article')}"
    )
    _late(quality, console)
    _symbols(quality, console)
    _rejects(quality, console)
    _closed(quality, console)
    _bands(quality, console)
    _articles(quality, console)
    for note in quality.notes:
        console.print(Text(f"note: {plain(note_text(ENGLISH, note), 1_000)}", "dim"))


def _table(title: str, *columns: str, numbers: Sequence[str] = ()) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left")
    return table


def _print(console: Console, table: Table, shown: int, whole: int) -> None:
    if table.row_count:
        console.print(table)
        _more(console, shown, whole)


def _print_list(console: Console, title: str, columns: Sequence[Column], whole: int) -> None:
    """A list of the largest `ROWS_MAX` of all, without the columns that the terminal has no room for."""
    if whole:
        console.print(Text(title, "bold"))
        print_list(console, columns)
        _more(console, ROWS_MAX, whole)


def _more(console: Console, shown: int, whole: int) -> None:
    if whole > shown:
        console.print(f"… and {whole - shown:,} more (--html FILE or --json has all)", style="dim")


def _late(quality: Quality, console: Console) -> None:
    late = quality.late
    table = _table("Late", "symbol", "last bar", "trading days behind", "why", numbers=("trading days behind",))
    for entry in late[:ROWS_MAX]:
        why = late_text(ENGLISH, entry, quality.last_closed)
        table.add_row(escape(plain(entry.symbol, TEXT_CHARS_MAX)), str(entry.last_day), str(entry.behind), escape(why))
    _print(console, table, ROWS_MAX, len(late))


def _strip(entry: SymbolQuality) -> Text:
    strip = Text(no_wrap=True)
    for cell in entry.cells[-STRIP_DAYS:]:
        strip.append(*_MARKS[cell])
    return strip


def _symbols(quality: Quality, console: Console) -> None:
    entries = [entry for entry in quality.active if set(entry.cells) - {PRESENT, NOTHING} or entry.rejects]
    shown = entries[:ROWS_MAX]
    columns = [
        Column("symbol", [escape(plain(entry.symbol, TEXT_CHARS_MAX)) for entry in shown]),
        Column("complete", [ENGLISH.percent(entry.completeness) for entry in shown]),
        Column("missing", [f"{entry.missing:,}" for entry in shown], spare=1),
        Column("revisions", [f"{entry.revisions:,}" for entry in shown], spare=2),
        Column("band", [f"{entry.band_days:,}" for entry in shown], spare=3),
        Column("tick", [f"{entry.tick_days:,}" for entry in shown], spare=4),
        Column("rejected", [f"{entry.rejects:,}" for entry in shown]),
        Column(f"last {min(STRIP_DAYS, len(quality.days))} days", [_strip(entry).markup for entry in shown]),
        Column("gaps", [escape(gaps_text(ENGLISH, entry, quality.days, 2)) for entry in shown], spare=5),
    ]
    _print_list(console, "Symbols to look at", columns, len(entries))
    if shown:
        console.print("▪ present  × never came  # rejected  r revised  ! warned", style="dim")


def _spark(counts: Iterable[int]) -> str:
    values = list(counts)
    most = max(values, default=0) or 1
    return "".join(_SPARKS[-(-value * (len(_SPARKS) - 1) // most)] for value in values)


def _rejects(quality: Quality, console: Console) -> None:
    width, series = binned(quality, _BINS)
    over_time = f"over time ({counted(width, 'day')} per column)"
    table = _table("Rejected by rule", "rule", "tasks", over_time, numbers=("tasks",))
    for rule, count in quality.rejects_by_rule.items():
        table.add_row(escape(plain(rule, TEXT_CHARS_MAX)), f"{count:,}", _spark(series[rule]))
    _print(console, table, len(series), len(series))


def _closed(quality: Quality, console: Console) -> None:
    shown = quality.closed[:ROWS_MAX]
    columns = [
        Column("rule", [escape(plain(entry.rule, TEXT_CHARS_MAX)) for entry in shown]),
        Column("letters", [f"{entry.count:,}" for entry in shown]),
        Column("by", [escape(plain(entry.by, TEXT_CHARS_MAX)) for entry in shown], spare=2),
        Column("closed", [entry.closed_at.isoformat(timespec="minutes") for entry in shown], spare=1),
        Column("note", [escape(plain(entry.note, TEXT_CHARS_MAX)) for entry in shown], folds=True),
    ]
    _print_list(console, "Letters closed by a person", columns, len(quality.closed))


def _bands(quality: Quality, console: Console) -> None:
    latest = sorted(quality.band_breaks, key=lambda entry: (entry.day, entry.symbol), reverse=True)
    columns = ("reference", "low", "high", "farthest")
    table = _table("Outside the daily band (warnings)", "symbol", "exchange", "day", *columns, numbers=columns)
    for entry in latest[:ROWS_MAX]:
        prices = (f"{price:,.10g}" for price in (entry.reference, entry.low, entry.high))
        table.add_row(
            escape(plain(entry.symbol, TEXT_CHARS_MAX)),
            entry.exchange,
            str(entry.day),
            *prices,
            signed_percent(ENGLISH, entry.change),
        )
    _print(console, table, ROWS_MAX, len(latest))


def _articles(quality: Quality, console: Console) -> None:
    articles = quality.articles
    shown = articles.largest[:ROWS_MAX]
    columns = [
        Column("source", [escape(plain(source.domain, TEXT_CHARS_MAX)) for source in shown], folds=True),
        Column("articles", [f"{source.articles:,}" for source in shown]),
        Column("vi", [f"{source.vi:,}" for source in shown], spare=1),
        Column("en", [f"{source.en:,}" for source in shown], spare=2),
        Column("unknown", [f"{source.unknown:,}" for source in shown], spare=3),
        Column("unstated", [f"{source.unstated:,}" for source in shown], spare=4),
        Column("lag, median", [duration(ENGLISH, source.lag_s_median) for source in shown]),
        Column("lag, 95 %", [duration(ENGLISH, source.lag_s_95) for source in shown]),
    ]
    _print_list(console, "Articles by source", columns, articles.sources)
    if articles.copy_groups:
        groups = counted(articles.copy_groups, "text")
        console.print(f"{counted(articles.copies_extra, 'probable copy', 'probable copies')} of {groups}")
