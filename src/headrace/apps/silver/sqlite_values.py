"""Python's values as SQLite holds them, and back.

A time is text in UTC with microseconds, a date is text, a list is JSON, a boolean is 0 or 1. A statement names the type
of a column that is none of SQLite's own behind its alias: `AS "seen [time]"`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from operator import attrgetter
from typing import Any

import msgspec

from headrace.apps.silver.values import Article, Bar

INTEGER_MAX = 2**63 - 1
Row = tuple[Any, ...]

_ALIAS = re.compile(r"\[(\w+)\]$")
_FROM_STORED: dict[str, Callable[[Any], Any]] = {
    "time": datetime.fromisoformat,
    "date": date.fromisoformat,
    "list": json.loads,
    "json": json.loads,
    "bool": bool,
}
_bar_values = attrgetter(*Bar.__slots__)
_article_values = attrgetter(*Article.__slots__)
_encode = msgspec.json.Encoder().encode


def time_text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def stored(value: Any) -> Any:
    """A parameter as SQLite takes it; what it takes anyway stays."""
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, date):
        return value.isoformat()
    return value


def stored_values(values: Mapping[str, object] | None) -> dict[str, Any]:
    return {name: stored(value) for name, value in (values or {}).items()}


def python_rows(description: Sequence[tuple[Any, ...]], rows: list[Row]) -> list[Row]:
    """Rows with the types that the aliases name."""
    typed = [(place, _ALIAS.search(column[0])) for place, column in enumerate(description)]
    readers = {place: _FROM_STORED[found[1]] for place, found in typed if found}
    if not readers:
        return rows
    return [
        tuple(
            [
                readers[place](value) if place in readers and value is not None else value
                for place, value in enumerate(row)
            ]
        )
        for row in rows
    ]


def bar_row(bar: Bar, now: str) -> Row:
    """In the order of `consume_bars`."""
    symbol, day, open_, high, low, close, volume, vwap, adjusted, currency, multiplier, source, seen, digest = (
        _bar_values(bar)
    )
    day, seen = day.isoformat(), time_text(seen)
    return symbol, day, open_, high, low, close, volume, vwap, adjusted, currency, multiplier, source, seen, digest, now


def article_row(article: Article, now: str) -> Row:
    """In the order of `consume_articles`."""
    values = list(_article_values(article))
    values[2], values[3] = time_text(article.publisher_time), time_text(article.first_seen_time)
    values[8], values[10] = _list_text(article.symbols), _list_text(article.topic_tags)
    return *values, now


def check_fits(record: Bar | Article) -> None:
    """Raise a `ValueError` for what no column could hold, whichever database it is."""
    for name in record.__slots__:
        value = getattr(record, name)
        for single in value if isinstance(value, list) else (value,):
            if isinstance(single, str) and b"\0" in single.encode():
                raise ValueError(f"{name} holds a NUL character")
            if isinstance(single, int) and not -INTEGER_MAX - 1 <= single <= INTEGER_MAX:
                raise ValueError(f"{name} has no room in its column")


def _list_text(values: list[str] | None) -> str | None:
    return None if values is None else _encode(values).decode()
