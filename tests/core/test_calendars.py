"""Calendars: days by their date, their day of the year, their day of the week."""

from __future__ import annotations

from datetime import date

import pytest

from headrace.core.calendars import DAYS_OUT_MAX, DayCalendar
from headrace.core.errors import CallerError


@pytest.mark.parametrize(
    ("word", "out", "not_out"),
    [
        ("2026-12-25", date(2026, 12, 25), date(2027, 12, 25)),
        ("12-25", date(2031, 12, 25), date(2031, 12, 26)),
        ("02-29", date(2028, 2, 29), date(2028, 2, 28)),
        ("sat", date(2026, 11, 21), date(2026, 11, 22)),
    ],
)
def test_a_day_is_left_out_as_it_was_written(word: str, out: date, not_out: date) -> None:
    calendar = DayCalendar.of([word])
    assert (calendar.leaves_out(out), calendar.leaves_out(not_out), bool(calendar)) == (True, False, True)
    assert not DayCalendar.of([])


@pytest.mark.parametrize("word", ["", "tomorrow", "13-01", "02-30", "2026-02-29", "SATURDAY"])
def test_what_is_no_day_is_refused_with_the_word(word: str) -> None:
    with pytest.raises(CallerError, match=f"{word!r} is not a day"):
        DayCalendar.of([word])


def test_more_days_than_anybody_needs_are_refused() -> None:
    with pytest.raises(CallerError, match=f"{DAYS_OUT_MAX:,}"):
        DayCalendar.of(["SAT"] * (DAYS_OUT_MAX + 1))
