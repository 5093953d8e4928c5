"""Calendars: the days on which a schedule does not fire.

A day is written as a date (`2026-12-25`), as a day of every year (`12-25`), or as a day of the week (`SAT`). It is the
day in the time zone of the schedule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from headrace.core.errors import CallerError

WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
DAYS_OUT_MAX = 1_000
_FORMS = "write a date such as 2026-12-25, a day of every year such as 12-25, or a day of the week such as SAT"
_YEARLY = re.compile(r"\d\d-\d\d")
# The 29th of February is a day of every year as well.
_LEAP_YEAR = 2024


@dataclass(frozen=True, slots=True)
class DayCalendar:
    """The days that are left out: none, unless some are named."""

    weekdays: frozenset[int] = frozenset()
    yearly: frozenset[tuple[int, int]] = frozenset()
    dates: frozenset[date] = frozenset()

    @classmethod
    def of(cls, words: Iterable[str]) -> DayCalendar:
        weekdays, yearly, dates = set(), set(), set()
        for count, word in enumerate(words):
            if count >= DAYS_OUT_MAX:
                raise CallerError(f"more than {DAYS_OUT_MAX:,} days are left out", "leave out days of the week or year")
            text = word.strip().upper()
            if text in WEEKDAYS:
                weekdays.add(WEEKDAYS.index(text))
            elif _YEARLY.fullmatch(text):
                day = _date(f"{_LEAP_YEAR}-{text}", word)
                yearly.add((day.month, day.day))
            else:
                dates.add(_date(text, word))
        return cls(frozenset(weekdays), frozenset(yearly), frozenset(dates))

    def leaves_out(self, day: date) -> bool:
        return day.weekday() in self.weekdays or (day.month, day.day) in self.yearly or day in self.dates

    def __bool__(self) -> bool:
        return bool(self.weekdays or self.yearly or self.dates)


def _date(text: str, word: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise CallerError(f"{word!r} is not a day", _FORMS) from None
