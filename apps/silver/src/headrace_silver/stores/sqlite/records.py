"""The records of the silver layer as rows of SQLite."""

from __future__ import annotations

from operator import attrgetter

import msgspec

from headrace.tables import Row, time_text
from headrace_silver.records.values import Article, Bar

INTEGER_MAX = 2**63 - 1

_bar_values = attrgetter(*Bar.__slots__)
_article_values = attrgetter(*Article.__slots__)
_encode = msgspec.json.Encoder().encode


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
