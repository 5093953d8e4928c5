"""Numbers and moments as platforms write them.

Counters arrive as 1200, "1,2 N", "1.2K", "3 triệu", null or -1. What can be understood is; what cannot is None, which
means *not known* and never fails a post.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from zoneinfo import ZoneInfo

COUNT_MAX = 10**15
_CHARS_MAX = 64
_AMOUNT = re.compile(r"([+-]?)\s*([0-9]+(?:[.,  ][0-9]+){0,8})\s*([^\W\d_]{0,6})\.?\+?")
_THOUSANDS = re.compile(r"[0-9]{1,3}(?:([.,  ])[0-9]{3})(?:\1[0-9]{3})*")
_UNITS = {"": 1, "k": 10**3, "n": 10**3, "ng": 10**3, "nghìn": 10**3, "ngàn": 10**3, "m": 10**6, "mn": 10**6}
_UNITS |= {"tr": 10**6, "triệu": 10**6, "trieu": 10**6, "mil": 10**6, "b": 10**9, "bn": 10**9, "t": 10**9}
_UNITS |= {"tỷ": 10**9, "tỉ": 10**9, "ty": 10**9}
_DAY_FIRST = re.compile(r"(\d{1,2})[/.-](\d{1,2})[/.-](\d{4})(?:[ T,]+(\d{1,2}):(\d{2})(?::(\d{2}))?)?")
_SINCE_1970 = re.compile(r"[0-9]{9,13}(?:\.[0-9]{1,6})?")
_MILLISECONDS_FROM = 10**11


def count(value: object) -> int | None:
    """A counter: never negative, never above `COUNT_MAX`; None if nobody can say."""
    if type(value) is int:
        return value if 0 <= value <= COUNT_MAX else min(max(value, 0), COUNT_MAX)
    if value is None or value is True or value is False:
        return None
    if isinstance(value, int | float):
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return int(min(max(value, 0), COUNT_MAX))
    if not isinstance(value, str) or len(value) > _CHARS_MAX:
        return None
    return _written(value.strip().lower())


def _written(text: str) -> int | None:
    match = _AMOUNT.fullmatch(text)
    if match is None or match[3] not in _UNITS:
        return None
    sign, digits, unit = match.groups()
    if _THOUSANDS.fullmatch(digits) and (unit == "" or not re.fullmatch(r"[0-9]{1,3}[.,][0-9]{3}", digits)):
        number = float(re.sub(r"\D", "", digits))
    else:
        whole, _, part = re.sub(r"[,  ]", ".", digits).rpartition(".")
        number = float(f"{whole.replace('.', '')}.{part}") if whole else float(part)
    return 0 if sign == "-" else min(round(number * _UNITS[unit]), COUNT_MAX)


def moment(value: object, zone: ZoneInfo) -> datetime | None:
    """A point in time in UTC: ISO 8601, seconds or milliseconds since 1970, a feed's date, or day/month/year. A time
    that tells no zone is of this one: a day alone stays that day."""
    if isinstance(value, datetime):
        return _utc(value, zone)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, str):
        text = value.strip()
        if not text or len(text) > _CHARS_MAX:
            return None
        if not _SINCE_1970.fullmatch(text):
            return _dated(text, zone)
        value = float(text)
    return _since_1970(value)


def _since_1970(value: float) -> datetime | None:
    try:
        seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _dated(text: str, zone: ZoneInfo) -> datetime | None:
    for read in (datetime.fromisoformat, _day_first, _feed_date):
        try:
            return _utc(read(text), zone)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None


def _feed_date(text: str) -> datetime:
    found = parsedate_to_datetime(text)
    # In this form -0000 is a time in UTC whose writer does not tell his own zone.
    return found.replace(tzinfo=UTC) if text.endswith("-0000") else found


def _day_first(text: str) -> datetime:
    match = _DAY_FIRST.fullmatch(text)
    if match is None:
        raise ValueError(text)
    day, month, year, hour, minute, second = (int(part or 0) for part in match.groups())
    return datetime(year, month, day, hour, minute, second)


def _utc(value: datetime, zone: ZoneInfo) -> datetime | None:
    try:
        return (value.replace(tzinfo=zone) if value.tzinfo is None else value).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
