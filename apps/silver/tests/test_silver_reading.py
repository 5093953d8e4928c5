"""Numbers, times and days as they are read from a payload."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from silver_records import UNHURRIED

from headrace_silver.records.payload_values import BIGINT_MAX, date_of, language_of, number_of, time_of, whole_number_of

NOON = datetime(2026, 3, 1, 12, 30, 15, tzinfo=UTC)
offsets = st.integers(min_value=-15 * 60, max_value=15 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@UNHURRIED
@given(st.floats(allow_nan=False))
def test_a_number_is_the_same_as_a_number_and_as_text(number: float) -> None:
    assert number_of(number) == number
    expected = pytest.approx(number, nan_ok=True) if math.isfinite(number) else pytest.approx(math.nan, nan_ok=True)
    assert number_of(repr(number)) == expected


@UNHURRIED
@given(st.integers())
def test_an_integer_is_a_number_and_a_whole_one(number: int) -> None:
    assert number_of(number) == number_of(str(number)) == float(number)
    assert whole_number_of(number) == number
    if -(2**53) < number <= BIGINT_MAX:
        assert whole_number_of(f" {number}\n") == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1e3", 1000.0),
        ("1E+3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("+5", 5.0),
        ("-0", 0.0),
        ("\t1.5\r\n", 1.5),
        ("1e-400", 0.0),
        ("1e400", math.inf),
        ("-1e400", -math.inf),
        ("007", 7.0),
    ],
)
def test_decimal_notation_is_a_number(text: str, number: float) -> None:
    assert number_of(text) == number


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        "",
        ".",
        "+",
        "e3",
        "1e",
        "1 2",
        "1,5",
        "1_000",
        "0x10",
        "0x1p3",
        "NaN",
        "inf",
        "Infinity",
        "१२",
        "\u00a05",
        "1.2.3",
        "--1",
        [],
        [1],
        {},
        b"1",
    ],
)
def test_anything_else_is_no_number(value: Any) -> None:
    assert math.isnan(number_of(value))
    assert whole_number_of(value) == -1


def test_a_long_text_that_is_nearly_a_number_is_refused_at_once() -> None:
    assert math.isnan(number_of("1" * 1_000_000 + "x"))


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (100.0, 100),
        (-0.0, 0),
        (100.5, -1),
        ("100.50", -1),
        (2.0**53, 2**53),
        ("9007199254740993", 2**53 + 1),
        ("9007199254740993.0", 2**53 + 1),
        ("9007199254740993.5", -1),
        ("9223372036854775807", BIGINT_MAX),
        ("922337203685477580.7e1", BIGINT_MAX),
        (-(2.0**60), -1),
        (-math.inf, -1),
        (math.nan, -1),
        ("-1e30", -1),
    ],
)
def test_a_whole_number_has_no_fraction(value: Any, read: int) -> None:
    assert whole_number_of(value) == read


@pytest.mark.parametrize("value", [2.0**63, 1e300, math.inf, "9223372036854775808", "1e999999999", "9" * 9999, 2**63])
def test_a_whole_number_beyond_a_bigint_stays_beyond(value: Any) -> None:
    assert whole_number_of(value) > BIGINT_MAX


@UNHURRIED
@given(
    st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31), timezones=offsets),
    st.sampled_from("T "),
)
def test_a_time_with_an_offset_is_that_time_in_utc(moment: datetime, between: str) -> None:
    read = time_of(moment.isoformat(between))
    assert read == moment
    assert read is not None
    assert read.tzinfo is UTC


@UNHURRIED
@given(st.datetimes(), st.sampled_from("T "))
def test_a_time_without_an_offset_is_utc(moment: datetime, between: str) -> None:
    assert time_of(moment.isoformat(between)) == moment.replace(tzinfo=UTC)


@UNHURRIED
@given(st.text(alphabet="0123456789", min_size=1, max_size=12))
def test_a_fraction_of_any_length_is_cut_after_six_digits(digits: str) -> None:
    micro = int(digits[:6].ljust(6, "0"))
    assert time_of(f"2026-03-01T12:30:15.{digits}Z") == NOON.replace(microsecond=micro)


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01T12:30:15Z",
        "2026-03-01 12:30:15+00",
        "2026-03-01T19:30:15+07:00",
        "2026-03-01T19:30:15+0700",
        "2026-03-01T19:30:15+07",
        "2026-03-01T09:00:15-03:30",
        "2026-03-01T12:30:15.000Z",
        "2026-03-01T12:30:15,0Z",
    ],
)
def test_writers_of_iso_8601_are_understood(text: str) -> None:
    assert time_of(text) == NOON


@UNHURRIED
@given(
    st.datetimes(), st.sampled_from(["", "Z", "+00:00", "+0000", "+00"]), st.sampled_from(["+07:00", "+0700", "+07"])
)
def test_the_usual_offsets_are_offsets_like_any_other(moment: datetime, here: str, there: str) -> None:
    text = moment.replace(microsecond=0).isoformat()
    assert time_of(text + here) == time_of(f"{text}.0{here}") == moment.replace(microsecond=0, tzinfo=UTC)
    assert time_of(text + there) == time_of(f"{text}.0{there}")


def test_seconds_and_the_hour_may_be_left_out() -> None:
    assert time_of("2026-03-01T12:30") == time_of("2026-03-01T12:30Z") == NOON.replace(second=0)
    assert time_of("2026-03-01") == datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1772368215,
        1772368215000,
        1.5,
        [],
        {},
        "",
        "soon",
        "2026",
        "2026-03",
        "20260301",
        "20260301T123015Z",
        "2026-W09-7",
        "2026-W09-7T12:30:15",
        "2026-060",
        "2026-03-01T",
        "2026-03-01T12",
        "2026-03-01x12:30:15",
        "2026-03-01T123015",
        "2026-03-01T12:30.55",
        "20260301T12:30:15.5",
        "2026-03-01T24:00:00Z",
        "2026-03-01 24:00:00+07:00",
        "2026-03-01T12:30:15+07:00+07:00",
        "2026-03-01T24:00:00",
        "2026-03-01T24:00",
        "2026-03-01T12:30:60Z",
        "2026-02-29T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "-001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+07:00",
        "9999-12-31T23:59:59-07:00",
        "2026-03-01T12:30:15 Z",
        " 2026-03-01T12:30:15Z",
        "2026-03-01T12:30:15Z\n",
        "２０２６-03-01T12:30:15Z",
        "2026-03-01T12:30:15.Z",
        "2026-03-01T12:30:15+25:00",
        "2026-03-0",
        "2026-03-011",
    ],
)
def test_anything_else_is_no_time(value: Any) -> None:
    assert time_of(value) is None


@UNHURRIED
@given(st.text(alphabet="0123456789-T :.Z+W", max_size=30))
def test_no_text_makes_a_reader_fail(text: str) -> None:
    assert time_of(text) is None or isinstance(time_of(text), datetime)
    assert date_of(text) is None or isinstance(date_of(text), date)


@UNHURRIED
@given(st.dates(min_value=date(2, 1, 1)))
def test_a_day_is_read_as_written_whatever_the_offset(day: date) -> None:
    for rest in ("", "T00:00", " 00:00:00", "T00:00:00.000Z", "T00:00:00+07:00", "T00:00:00-05:00"):
        if day.year < 9999:
            assert date_of(f"{day.isoformat()}{rest}") == day


@pytest.mark.parametrize("text", ["1899-12-31", "2024-02-29", "0001-01-01", "9999-12-31"])
def test_days_of_any_year_are_days(text: str) -> None:
    assert date_of(text) == date.fromisoformat(text)


@pytest.mark.parametrize(
    "value",
    [
        None,
        20260301,
        True,
        [],
        "",
        "2026-3-1",
        "01-03-2026",
        "2026/03/01",
        "20260301",
        "2026-W09-7",
        "2026-02-29",
        "1900-02-29",
        "0000-01-01",
        "2026-03-01T00:00:01",
        "2026-03-01T00:00:00.000001Z",
        "2026-02-28T17:00:00Z",
        "2026-03-01T24:00:00",
        "2026-03-01 ",
        "2026-03-01\n",
        "2026-03-01T00",
    ],
)
def test_anything_else_is_no_day(value: Any) -> None:
    assert date_of(value) is None


def test_only_vi_and_en_are_known_languages() -> None:
    assert [language_of(value) for value in ("vi", "en", None, "")] == ["vi", "en", None, None]
    assert {language_of(value) for value in ("VI", "vi ", "fr", 0, False, [], {}, "unknown")} == {"unknown"}
