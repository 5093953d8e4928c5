"""Timetables: the same moments whoever asks, through the changes of the clocks too."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.calendars import WEEKDAYS, DayCalendar
from headrace.core.errors import CallerError
from headrace.core.schedules import moment_text
from headrace.runtime.timetable import NEVER_MS, Timetable, timetable_text

ZONES = ["UTC", "Asia/Ho_Chi_Minh", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo"]
HOUR_MS = 3_600_000


def ms(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1_000)


def shown(expression: str, zone: str, after: str, count: int) -> list[str]:
    table = Timetable(expression, zone)
    return [moment_text(moment, table.zone) for moment in table.next(ms(after, zone), count)]


def test_a_time_of_day_is_that_of_its_zone() -> None:
    assert shown("0 3 * * *", "Asia/Ho_Chi_Minh", "2026-11-16T12:00", 2) == [
        "2026-11-17T03:00:00+07:00",
        "2026-11-18T03:00:00+07:00",
    ]


def test_a_time_of_day_that_is_left_out_is_the_first_instant_after_the_gap() -> None:
    assert shown("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", 2) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]


def test_a_time_of_day_that_comes_twice_is_its_first_coming() -> None:
    assert shown("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", 2) == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
    ]
    table = Timetable("30 2 * * *", "Europe/Berlin")
    in_the_second_hour = int(datetime(2026, 10, 25, 1, 10, tzinfo=UTC).timestamp() * 1_000)
    assert moment_text(table.after(in_the_second_hour), table.zone) == "2026-10-26T02:30:00+01:00"


def test_every_so_often_follows_real_time_through_the_change() -> None:
    assert shown("*/30 * * * *", "Europe/Berlin", "2026-10-25T01:45", 5) == [
        "2026-10-25T02:00:00+02:00",
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:00:00+01:00",
        "2026-10-25T02:30:00+01:00",
        "2026-10-25T03:00:00+01:00",
    ]
    assert shown("*/30 * * * *", "Europe/Berlin", "2026-03-29T01:30", 2) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-29T03:30:00+02:00",
    ]


def test_an_interval_is_counted_from_the_epoch() -> None:
    table = Timetable("PT90M")
    assert [moment % (90 * 60_000) for moment in table.next(ms("2026-11-16T12:07"), 3)] == [0, 0, 0]
    assert timetable_text(timedelta(minutes=5)) == "PT300S"
    for same in ("PT300S", "PT5M", "pt5m"):
        assert Timetable(same).next(0, 2) == [300_000, 600_000]
    assert Timetable("P1W").after(0) == 7 * 24 * HOUR_MS


def test_an_interval_may_name_its_beginning() -> None:
    table = Timetable("R/2026-11-16T15:07:30Z/PT6H")
    begin = ms("2026-11-16T15:07:30")
    assert table.next(begin - 1, 2) == [begin, begin + 6 * HOUR_MS]
    assert table.next(begin - 1_000 * HOUR_MS, 1) == [begin]
    assert table.next(begin, 1) == table.next(begin + HOUR_MS, 1) == [begin + 6 * HOUR_MS]
    assert table.newest(begin - HOUR_MS, begin + 13 * HOUR_MS, 9) == [begin, begin + 6 * HOUR_MS, begin + 12 * HOUR_MS]
    local = Timetable("r/2026-11-16T09:00/p1d", "Asia/Ho_Chi_Minh")
    assert moment_text(local.after(0), local.zone) == "2026-11-16T09:00:00+07:00"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("* * * *", "5 fields"),
        ("*/5 * * * * *", "5 fields"),
        ("61 * * * *", "bad minute"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("", "5 fields"),
        ("PT", "not a duration"),
        ("P1M", "not a duration"),
        ("PT0S", "not a duration"),
        ("P400D", "not a duration"),
        ("P99999999999D", "not a duration"),
        ("R/yesterday/PT6H", "not a point in time"),
        ("R/2026-11-16T15:00Z/6H", "not a duration"),
        ("R5/2026-11-16T15:00Z/PT6H", "5 fields"),
    ],
)
def test_what_cannot_be_a_timetable_is_refused_with_words(text: str, words: str) -> None:
    with pytest.raises(CallerError, match=words) as refused:
        Timetable(text)
    assert "PT5M" in refused.value.hint


@pytest.mark.parametrize("tz", ["Asia/Atlantis", "", "../etc/passwd", "a\x00b"])
def test_a_time_zone_that_nobody_knows_is_refused(tz: str) -> None:
    with pytest.raises(CallerError, match="no time zone"):
        Timetable("* * * * *", tz)


@pytest.mark.parametrize("seconds", [0.5, 1.5, -5, 400 * 86_400])
def test_an_interval_is_a_whole_number_of_seconds(seconds: float) -> None:
    with pytest.raises(CallerError, match="whole number"):
        timetable_text(timedelta(seconds=seconds))


def test_the_newest_moments_are_found_from_behind() -> None:
    table, now = Timetable("* * * * *"), ms("2026-11-16T12:00:30")
    assert table.newest(now - 30 * 24 * HOUR_MS, now, 1) == [ms("2026-11-16T12:00")]
    assert len(table.newest(now - 30 * 24 * HOUR_MS, now, 100)) == 100
    assert table.newest(now - 90_000, now, 100) == [ms("2026-11-16T12:00")]
    assert table.newest(now, now, 5) == []
    yearly = Timetable("0 0 1 1 *")
    assert yearly.newest(ms("2020-06-01T00:00"), now, 2) == [ms("2025-01-01T00:00"), ms("2026-01-01T00:00")]


FIELD = st.sampled_from(["*", "*/2", "*/7", "0", "30", "15,45", "0-10"])
EXPRESSIONS = st.builds(
    lambda minute, hour, day, weekday: f"{minute} {hour} {day} * {weekday}",
    FIELD,
    st.sampled_from(["*", "*/3", "0", "1", "2", "3", "1-3", "2,23"]),
    st.sampled_from(["*", "1", "25-31"]),
    st.sampled_from(["*", "SUN", "1-5"]),
)
# Every zone here changes its clocks around one of these, or never does.
DAYS = ["2026-03-07", "2026-03-28", "2026-04-04", "2026-04-23", "2026-10-03", "2026-10-24", "2026-10-31"]


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS, st.sampled_from(ZONES), st.sampled_from(DAYS), st.integers(0, 48 * 60 - 1))
def test_a_timetable_is_one_set_of_moments_wherever_one_begins(
    expression: str, zone: str, day: str, minutes: int
) -> None:
    table, start = Timetable(expression, zone), ms(f"{day}T00:00")
    whole = table.newest(start, start + 72 * HOUR_MS, 10_000)
    assert whole == sorted(set(whole))
    later = start + minutes * 60_000
    assert table.after(later) == next(iter([m for m in whole if m > later]), table.after(whole[-1] if whole else start))


def test_days_of_the_calendar_are_left_out_in_the_zone_of_the_schedule() -> None:
    table = Timetable("0 0,12 * * *", "Asia/Ho_Chi_Minh", DayCalendar.of(["SAT", "SUN", "2026-11-23"]))
    found = table.next(ms("2026-11-20T11:00", "Asia/Ho_Chi_Minh"), 3)
    assert [moment_text(moment, table.zone) for moment in found] == [
        "2026-11-20T12:00:00+07:00",
        "2026-11-24T00:00:00+07:00",
        "2026-11-24T12:00:00+07:00",
    ]


def test_a_day_that_is_left_out_costs_one_look_however_many_moments_it_has() -> None:
    table = Timetable("* * * * *", "UTC", DayCalendar.of(WEEKDAYS[:6]))
    assert table.newest(ms("2026-01-01T00:00"), ms("2026-11-17T00:00"), 1) == [ms("2026-11-15T23:59")]
    assert Timetable("PT1S", "UTC", DayCalendar.of(["TUE"])).after(ms("2026-11-17T00:00")) == ms("2026-11-18T00:00")


@pytest.mark.parametrize("expression", ["* * * * 6", "0 9 * * 6,6", "PT1H"])
def test_a_calendar_that_leaves_out_everything_has_no_moment(expression: str) -> None:
    days = WEEKDAYS if expression.startswith("P") else ("SAT",)
    assert Timetable(expression, "UTC", DayCalendar.of(days)).after(ms("2026-11-17T00:00")) == NEVER_MS


class CountedTimetable(Timetable):
    """Counts how often a search begins: that is what takes time."""

    searches = 0

    def _every(self, moment_ms: int) -> Iterator[int]:
        self.searches += 1
        return super()._every(moment_ms)


@pytest.mark.parametrize("expression", ["* * * * *", "0 9 * * *", "PT5M"])
def test_a_timetable_whose_every_day_is_left_out_is_searched_once(expression: str) -> None:
    """A calendar may be changed at any time, and whoever fires asks every second."""
    table, now_ms = CountedTimetable(expression, days_out=DayCalendar.of(WEEKDAYS)), ms("2026-11-16T12:00")
    assert [table.after(now_ms + second * 1_000) for second in range(100)] == [NEVER_MS] * 100
    assert table.newest(now_ms, now_ms + HOUR_MS, 10) == []
    assert table.searches < 200


def test_a_gap_that_was_found_is_not_searched_again() -> None:
    calendar = DayCalendar.of(f"2026-11-{day:02d}" for day in range(1, 31))
    table = CountedTimetable("0 9 * * TUE", days_out=calendar)
    first = [table.after(ms("2026-11-02T12:00") + hour * HOUR_MS) for hour in range(24 * 20)]
    assert set(first) == {ms("2026-12-01T09:00")}
    assert table.searches <= len(first) + 5
    assert table.after(ms("2026-10-20T09:00")) == ms("2026-10-27T09:00"), "what lies before it is"


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(["*/30 * * * *", "30 2 * * *", "0 9 * * MON", "0 0 29 2 *", "P2D"]),
    st.sampled_from(ZONES),
    st.lists(st.sampled_from([*WEEKDAYS, "02-29", "10-25", "2026-03-29", "2026-11-17"]), max_size=6),
    st.lists(st.integers(ms("2026-01-01T00:00"), ms("2028-12-31T00:00")), min_size=2, max_size=8),
)
def test_what_was_asked_before_changes_no_answer(expression: str, zone: str, out: list[str], asked: list[int]) -> None:
    table = Timetable(expression, zone, DayCalendar.of(out))
    for moment_ms in asked:
        assert table.next(moment_ms, 2) == Timetable(expression, zone, DayCalendar.of(out)).next(moment_ms, 2)
