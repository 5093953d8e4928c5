"""Single values of a payload, read.

- number: a JSON number, or a string in decimal notation as PostgreSQL casts it to a double (`" 1e3 "`, `.5`, `+7.`);
  no booleans, no underscores, no hexadecimal, no digits but 0 to 9, no NaN. What is too large is infinite, what is
  too small is 0.
- whole number: a number without a fraction (`100.0`, `"1e3"`); exact where it is written as an integer or a string,
  else as exact as a double.
- time: ISO 8601 with `T` or a blank between date and time, seconds optional, fractions cut after six digits, any
  offset or `Z`; without one it is UTC. A date alone is its midnight. Numbers are no times: seconds and milliseconds
  cannot be told apart. A leap second, the hour 24 and years outside 1 to 9999 (in UTC) are refused.
- date: `YYYY-MM-DD`, or a time at midnight as it is written; nothing is shifted.
- language: `vi` and `en` as written; absent, null or empty is None; anything else is `unknown`.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

BIGINT_MAX = 2**63 - 1
NO_NUMBER = math.nan
NO_WHOLE_NUMBER = -1
LANGUAGES = frozenset(("vi", "en"))
LANGUAGE_UNKNOWN = "unknown"
DAYS_REMEMBERED_MAX = 4096

_DOUBLE_EXACT_BELOW = 2**53
_BLANKS = " \t\n\r\f\v"
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?").fullmatch
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ](?!24)[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?"
    r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?"
).fullmatch
_USUAL_OFFSETS = {
    **dict.fromkeys(("", "Z", "+00:00", "+0000", "+00"), timedelta()),
    **dict.fromkeys(("+07:00", "+0700", "+07"), timedelta(hours=7)),
}
_MIDNIGHT = time()


def number_of(value: Any) -> float:
    """A double, infinite if it is beyond one, NaN if it is no number."""
    kind = type(value)
    if kind is float:
        return value  # type: ignore[no-any-return]
    if kind is int:
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if kind is str and _NUMBER(value.strip(_BLANKS)):
        return float(value)
    return NO_NUMBER


def whole_number_of(value: Any) -> int:
    """A whole number, −1 if it is none. One beyond a bigint may become any other beyond a bigint."""
    if type(value) is int:
        return value
    number = number_of(value)
    if -_DOUBLE_EXACT_BELOW < number < _DOUBLE_EXACT_BELOW:
        return int(number) if number.is_integer() else NO_WHOLE_NUMBER
    # As a double the largest bigint is one more than it is: at the border only the exact value can tell.
    if not 0 < number <= BIGINT_MAX + 1:
        return BIGINT_MAX + 1 if number > 0 else NO_WHOLE_NUMBER
    exact = Decimal(value.strip(_BLANKS) if type(value) is str else number)
    return int(exact) if exact == exact.to_integral_value() else NO_WHOLE_NUMBER


def time_of(value: Any) -> datetime | None:
    """An aware time in UTC, or None."""
    if type(value) is not str:
        return None
    if len(value) == 10:
        value += "T00:00"
    try:
        return _usual_time(value) or _any_time(value)
    except (ValueError, OverflowError):
        return None


def _usual_time(value: str) -> datetime | None:
    """A time to the second with one of the usual offsets, at a third of the cost; None if it is not written so."""
    shift = _USUAL_OFFSETS.get(value[19:])
    if shift is None or len(value) < 19 or value[10] not in "T " or value[11:13] == "24":
        return None
    if value[7] == "-" and value[13] == value[16] == ":":
        return datetime.fromisoformat(value[:19] + "+00:00") - shift
    return None


def _any_time(value: str) -> datetime | None:
    # The parser alone takes too much (weeks, other separators, `15.Z`), and what it takes depends on its version.
    if not _TIME(value):
        return None
    moment = datetime.fromisoformat(value)
    return datetime.fromisoformat(value + "+00:00") if moment.tzinfo is None else moment.astimezone(UTC)


def date_of(value: Any) -> date | None:
    """The calendar day as it is written, or None."""
    if type(value) is not str:
        return None
    if len(value) == 10:
        return _day(value)
    if time_of(value) is None:
        return None
    written = datetime.fromisoformat(value)
    return written.date() if written.time() == _MIDNIGHT else None


@lru_cache(maxsize=DAYS_REMEMBERED_MAX)
def _day(value: str) -> date | None:
    try:
        return date.fromisoformat(value) if value[7] == "-" else None
    except ValueError:
        return None


def language_of(value: Any) -> str | None:
    """vi or en as written, None if nothing is stated, else `unknown`."""
    if value is None or value == "":
        return None
    return value if type(value) is str and value in LANGUAGES else LANGUAGE_UNKNOWN
