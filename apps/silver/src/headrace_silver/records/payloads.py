"""The JSON text of a task, read into a record.

A field that a rule judges and that cannot be read becomes a value no rule accepts (an unreadable price is NaN, an
unreadable volume −1), so that a rule is one comparison. A field that no rule judges and that cannot become its
column's type is named in `unfit`: the database would refuse it, and the task ends as an `exception`, alone.
How single values are read stands in `reading`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from math import isfinite
from typing import Any

import msgspec

from headrace_silver.records.payload_values import BIGINT_MAX, date_of, language_of, number_of, time_of, whole_number_of
from headrace_silver.records.shown_text import shown
from headrace_silver.records.values import Article, Bar

NO_DATE = date.max
# The publisher's time may not be late and the first sight may not be early: each extreme fails its rule.
NO_PUBLISHER_TIME = datetime.max.replace(tzinfo=UTC)
NO_FIRST_SEEN_TIME = datetime.min.replace(tzinfo=UTC)
NO_TEXT = ""
# An entry that is no text fails the rule of symbols whatever pattern is set.
NO_SYMBOLS: list[Any] = [None]
# Python refuses to turn a longer text into an integer; a double ends far below.
INTEGER_DIGITS_MAX = 400

_decode = msgspec.json.Decoder().decode


@dataclass(slots=True)
class NotAnObject:
    """A payload that is no record, and why."""

    why: str


def decode(text: str | bytes) -> dict[str, Any] | NotAnObject:
    """The object that a payload is, or that the JSON string it is holds."""
    try:
        value = _value_of(text)
        if type(value) is str:
            value = _value_of(value)
    except RecursionError:
        return NotAnObject("it is nested too deeply")
    except ValueError as error:
        return NotAnObject(f"it is not JSON ({shown(str(error))[1:-1]})")
    return value if type(value) is dict else NotAnObject(f"it is {shown(value)}")


def _value_of(text: str | bytes) -> Any:
    try:
        return _decode(text)
    except msgspec.ValidationError:
        # JSON, but with a number beyond a double or with thousands of digits: that is for the rule of its field to
        # judge. The standard library lets lone surrogates pass, which no database stores; encoding finds them.
        value = json.loads(text, parse_int=_integer, parse_constant=_refuse)
        json.dumps(value, ensure_ascii=False).encode()
        return value


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= INTEGER_DIGITS_MAX else float(digits)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def read_bar(payload: dict[str, Any], first_seen: datetime, unfit: list[str]) -> Bar:
    """The bar that a payload describes, first seen with its task unless it says otherwise."""
    get = payload.get
    symbol, volume, seen = get("symbol"), whole_number_of(get("volume")), get("first_seen_time")
    if volume > BIGINT_MAX:
        unfit.append("volume")
    seen_at = first_seen if seen is None else time_of(seen)
    if seen_at is None:
        unfit.append("first_seen_time")
    return Bar(
        symbol if type(symbol) is str else NO_TEXT,
        date_of(get("trade_date")) or NO_DATE,
        number_of(get("open")),
        number_of(get("high")),
        number_of(get("low")),
        number_of(get("close")),
        volume,
        _optional_number(get("vwap"), "vwap", unfit),
        _optional_number(get("adj_close"), "adj_close", unfit),
        _currency(get("currency")),
        _optional_number(get("price_multiplier"), "price_multiplier", unfit),
        _optional_text(get("source"), "source", unfit),
        seen_at or NO_FIRST_SEEN_TIME,
        _optional_text(get("content_hash"), "content_hash", unfit),
    )


def read_article(payload: dict[str, Any], first_seen: datetime, unfit: list[str]) -> Article:
    """The article that a payload describes, first seen with its task unless it says otherwise."""
    get = payload.get
    url, domain, text, digest = get("url_canonical"), get("source_domain"), get("text_normalized"), get("content_hash")
    seen, symbols, weighted = get("first_seen_time"), get("symbols"), get("account_weights_applied")
    if weighted is not None and type(weighted) is not bool:
        unfit.append("account_weights_applied")
    return Article(
        url if type(url) is str else NO_TEXT,
        domain if type(domain) is str else NO_TEXT,
        time_of(get("publisher_time")) or NO_PUBLISHER_TIME,
        first_seen if seen is None else time_of(seen) or NO_FIRST_SEEN_TIME,
        language_of(get("language")),
        _optional_text(get("title"), "title", unfit),
        text if type(text) is str else NO_TEXT,
        digest if type(digest) is str else NO_TEXT,
        symbols if symbols is None or type(symbols) is list else NO_SYMBOLS,
        _optional_text(get("author"), "author", unfit),
        _tags(get("topic_tags"), unfit),
        _optional_number(get("hype_raw"), "hype_raw", unfit),
        _optional_number(get("hype_crowd"), "hype_crowd", unfit),
        _optional_number(get("hype_elitist"), "hype_elitist", unfit),
        weighted,
    )


def may_hold_nul(text: str | bytes) -> bool:
    """Whether a text in this payload may hold the character NUL, which PostgreSQL cannot store; rarely yes.

    JSON can only write it escaped. Looking for a backslash first is thirty times cheaper than looking for the escape,
    and both are cheaper than looking into every text. A payload inside a JSON string may hide it in many ways.
    """
    if isinstance(text, bytes):
        return b"\\" in text and (b"\\u0000" in text or text.lstrip()[:1] == b'"')
    return "\\" in text and ("\\u0000" in text or text.lstrip()[:1] == '"')


def fields_with_nul(record: Bar | Article) -> list[str]:
    """The fields of this record whose text, or an entry of it, holds the character NUL."""
    return [name for name in record.__slots__ if _holds_nul(getattr(record, name))]


def _holds_nul(value: Any) -> bool:
    return any(type(text) is str and "\0" in text for text in (value if type(value) is list else (value,)))


def _currency(value: Any) -> str | None:
    if value is None or value == "":
        return None
    return value if type(value) is str else NO_TEXT


def _optional_text(value: Any, name: str, unfit: list[str]) -> str | None:
    if value is None or type(value) is str:
        return value
    unfit.append(name)
    return None


def _optional_number(value: Any, name: str, unfit: list[str]) -> float | None:
    if value is None:
        return None
    number = number_of(value)
    if isfinite(number):
        return number
    unfit.append(name)
    return None


def _tags(value: Any, unfit: list[str]) -> list[str] | None:
    if value is None:
        return None
    if type(value) is not list or any(map(_is_no_text, value)):
        unfit.append("topic_tags")
    return value  # type: ignore[no-any-return]


def _is_no_text(value: Any) -> bool:
    return type(value) is not str
