"""What bars were before they were overwritten, next to what they are now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headrace.pages import plain
from headrace_silver.report.text import TEXT_CHARS_MAX
from headrace_silver.stores.silver_store import SilverStore

COLUMNS = ("open", "high", "low", "close", "volume", "vwap", "adj_close", "currency", "price_multiplier", "source")


@dataclass(frozen=True, slots=True)
class Version:
    """A bar as it stood from `since` until it was replaced (None: it stands)."""

    day: date
    values: Sequence[Any]
    since: datetime
    replaced_at: datetime | None


def versions(store: SilverStore, symbol: str, day: date | None, most: int) -> list[list[Version]]:
    """The bars of a symbol that were ever overwritten, latest day first, each with its versions, latest first."""
    values = {"symbol": symbol, "day": day, "most": most}
    kept = [Version(row[0], row[1:11], row[11], row[12]) for row in store.rows("revisions_kept", values)]
    current = {row[0]: Version(row[0], row[1:11], row[11], None) for row in store.rows("revisions_current", values)}
    grouped = groupby(kept, key=lambda version: version.day)
    # A bar that somebody deleted since then has only its past.
    return [[*([current[found]] if found in current else []), *past] for found, past in grouped]


def document(symbol: str, found: Sequence[Sequence[Version]]) -> dict[str, Any]:
    """For scripts, with stable keys."""
    return {"symbol": symbol, "bars": [{"day": bar[0].day.isoformat(), "versions": _entries(bar)} for bar in found]}


def show(symbol: str, found: Sequence[Sequence[Version]], console: Console) -> None:
    """One row per version; what differs from the next older one is bold."""
    if not found:
        console.print(f"no bar of {escape(plain(symbol, TEXT_CHARS_MAX))} was overwritten with other values")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("day", "replaced at (UTC)", *COLUMNS):
        table.add_column(column, justify="right" if column in COLUMNS[:7] else "left")
    for bar in found:
        for place, version in enumerate(bar):
            older = bar[place + 1].values if place + 1 < len(bar) else version.values
            cells = [_cell(now, before) for now, before in zip(version.values, older, strict=True)]
            until = version.replaced_at
            table.add_row(
                str(version.day) if not place else "", f"{until:%Y-%m-%d %H:%M:%S}" if until else "now", *cells
            )
    console.print(table)


def _cell(value: Any, before: Any) -> str:
    text = "–" if value is None else f"{value:,}" if isinstance(value, int | float) else escape(plain(str(value), 40))
    return text if value == before else f"[bold]{text}[/]"


def _entries(bar: Sequence[Version]) -> list[dict[str, Any]]:
    return [
        {
            **dict(zip(COLUMNS, version.values, strict=True)),
            "ingest_time": version.since.isoformat(),
            "replaced_at": version.replaced_at.isoformat() if version.replaced_at else None,
        }
        for version in bar
    ]
