"""On which days the exchanges trade."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_silver.market import calendar
from headrace_silver.market.notes import Note

CLOSED = """
2019-04-29 2020-01-23 2020-04-02 2021-05-03 2022-01-03 2022-09-01 2023-01-20 2023-05-03 2023-09-01
2024-02-14 2024-04-29 2025-04-07 2025-05-02 2026-01-02 2026-02-16 2026-08-31 2027-02-08 2027-04-16
"""
DATES = st.dates(date(2018, 1, 1), date(2030, 12, 31))


@pytest.mark.parametrize("day", CLOSED.split())
def test_the_exchanges_are_closed_on_holidays_and_on_days_given_in_compensation(day: str) -> None:
    assert date.fromisoformat(day).weekday() < 5
    assert not calendar.is_trading_day(date.fromisoformat(day))


@pytest.mark.parametrize(
    "day",
    ["2020-01-30", "2022-01-04", "2023-01-27", "2024-02-07", "2025-02-03", "2026-01-05", "2026-02-23", "2026-09-03"],
)
def test_they_trade_on_the_days_around_a_holiday(day: str) -> None:
    assert calendar.is_trading_day(date.fromisoformat(day))


def test_a_saturday_that_makes_up_for_a_day_off_is_no_trading_day() -> None:
    assert not calendar.is_trading_day(date(2024, 5, 4))
    assert not calendar.is_trading_day(date(2026, 8, 22))


def test_every_year_of_the_table_has_new_year_lunar_new_year_and_the_national_day() -> None:
    for year in range(calendar.FIRST_YEAR, calendar.LAST_YEAR + 1):
        closed = {day for day in calendar.CLOSED if day.year == year}
        assert any(day.month == 1 and day.day <= 3 for day in closed), year
        assert len({day for day in closed if (1, 20) <= (day.month, day.day) <= (2, 20)}) == 5, year
        assert any((8, 31) <= (day.month, day.day) <= (9, 4) for day in closed), year
        assert 247 <= len(calendar.trading_days(date(year, 1, 1), date(year, 12, 31))) <= 252, year


@given(DATES, st.integers(0, 400))
def test_the_trading_days_are_the_days_that_are_trading_days(first: date, length: int) -> None:
    last = first + timedelta(days=length)
    every = [first + timedelta(days=number) for number in range(length + 1)]
    assert calendar.trading_days(first, last) == [day for day in every if calendar.is_trading_day(day)]


@given(DATES, st.integers(1, 300))
def test_the_last_trading_days_are_as_many_as_asked_and_leave_none_out(last: date, count: int) -> None:
    days = calendar.last_trading_days(last, count)
    assert len(days) == count
    assert calendar.trading_days(days[0], last) == days


def test_no_days_lie_between_a_day_and_one_before_it() -> None:
    assert calendar.trading_days(date(2025, 3, 14), date(2025, 3, 13)) == []


@pytest.mark.parametrize(
    ("now", "day"),
    [
        (datetime(2025, 3, 14, 7, 59, 59, tzinfo=UTC), date(2025, 3, 13)),
        (datetime(2025, 3, 14, 8, 0, tzinfo=UTC), date(2025, 3, 14)),
        (datetime(2025, 3, 13, 17, 0, tzinfo=UTC), date(2025, 3, 13)),
        (datetime(2025, 3, 15, 12, 0, tzinfo=UTC), date(2025, 3, 14)),
        (datetime(2025, 2, 3, 1, 0, tzinfo=UTC), date(2025, 1, 24)),
    ],
    ids=["a second before the close", "at the close", "after midnight in Vietnam", "saturday", "the morning after Tết"],
)
def test_a_day_is_closed_from_three_in_the_afternoon_in_vietnam(now: datetime, day: date) -> None:
    assert calendar.last_closed_day(now) == day


def test_what_is_certain_needs_no_words() -> None:
    assert calendar.doubts(date(2019, 1, 1), date(2026, 12, 31)) == []


def test_expected_holidays_are_called_expected() -> None:
    assert calendar.doubts(date(2026, 3, 1), date(2027, 3, 1)) == [Note("expected", {"year": "2027"})]


def test_a_year_beyond_the_table_is_named() -> None:
    assert calendar.doubts(date(2028, 3, 1), date(2029, 3, 1)) == [Note("beyond", {"years": "2028–2029"})]
    before, expected = calendar.doubts(date(2018, 3, 1), date(2027, 3, 1))
    assert before == Note("beyond", {"years": "2018"})
    assert expected == Note("expected", {"year": "2027"})
