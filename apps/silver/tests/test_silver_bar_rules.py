"""The rules of bars, each on both sides of its boundary, by example and by chance."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from silver_records import ABSENT, BAR, NOT_TEXT, UNHURRIED, bar, changed, judged, rule_of

from headrace_silver.records.values import TA_BAR, Bar, Reject

NOT_NUMBERS = [
    ABSENT,
    None,
    True,
    False,
    "",
    " ",
    "x",
    "NaN",
    "inf",
    "-Infinity",
    "1_000",
    "١٢",
    "１２",
    "0x10",
    "1e",
    [1],
    {},
]
HUGE = [pytest.param(-(10**400), id="-1e400"), pytest.param(10**400, id="1e400"), pytest.param("9" * 5000, id="9s")]
prices = st.floats(min_value=0, max_value=1e9, allow_subnormal=True)


@pytest.mark.parametrize("symbol", NOT_TEXT)
def test_a_symbol_is_required_and_text(symbol: Any) -> None:
    assert rule_of(bar(symbol=symbol)) == "ta_symbol"


def test_a_trade_date_is_in_the_future_when_vietnam_says_so() -> None:
    # At 17:00 UTC a new day begins in Vietnam.
    midnight = datetime(2026, 3, 1, 17, 0, tzinfo=UTC)
    for now, day, rule in (
        (midnight - timedelta(microseconds=1), "2026-03-01", None),
        (midnight - timedelta(microseconds=1), "2026-03-02", "ta_trade_date"),
        (midnight, "2026-03-02", None),
        (midnight, "2026-03-03", "ta_trade_date"),
    ):
        assert rule_of(judged(TA_BAR, changed(BAR, trade_date=day), now=now)) == rule


@UNHURRIED
@given(st.dates())
def test_any_day_up_to_today_is_a_trade_date(day: date) -> None:
    outcome = bar(trade_date=day.isoformat())
    if day > date(2026, 3, 2):
        assert rule_of(outcome) == "ta_trade_date"
    else:
        assert isinstance(outcome, Bar)
        assert outcome.trade_date == day


@pytest.mark.parametrize(
    "day", [*NOT_TEXT, "", "2026-02-29", "2025-13-01", "20260227", "2026-W05-1", "27/02/2026", "9999-12-31"]
)
def test_what_is_no_day_is_no_trade_date(day: Any) -> None:
    assert rule_of(bar(trade_date=day)) == "ta_trade_date"


@pytest.mark.parametrize("field", ["open", "high", "low", "close"])
@pytest.mark.parametrize("value", [*NOT_NUMBERS, -0.01, "-1", "1e400", *HUGE])
def test_a_price_is_a_finite_number_of_at_least_nothing(field: str, value: Any) -> None:
    assert rule_of(bar(**{field: value})) == "ta_price"


def test_prices_of_nothing_are_prices() -> None:
    outcome = bar(open=0, high=0.0, low="0", close=-0.0, volume=0)
    assert isinstance(outcome, Bar)
    assert (outcome.open, outcome.high, outcome.low, outcome.close) == (0, 0, 0, 0)


@UNHURRIED
@given(prices, prices, prices, prices)
def test_prices_relate_as_the_specification_says(first: float, high: float, low: float, last: float) -> None:
    good = high >= max(first, last) and low <= min(first, last) and high >= low
    assert rule_of(bar(open=first, high=high, low=low, close=last)) == (None if good else "ta_price_relation")


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"high": 11.0, "close": 11.0}, None),
        ({"high": 10.99, "close": 11.0}, "ta_price_relation"),
        ({"high": 10.0, "close": 10.0}, None),
        ({"high": 9.99, "close": 9.5}, "ta_price_relation"),
        ({"low": 10.0}, None),
        ({"low": 10.01}, "ta_price_relation"),
        ({"low": 9.5, "close": 9.5}, None),
        ({"low": 9.51, "close": 9.5}, "ta_price_relation"),
    ],
)
def test_high_and_low_may_touch_open_and_close(fields: dict[str, float], rule: str | None) -> None:
    assert rule_of(bar(**fields)) == rule


@pytest.mark.parametrize("volume", [*NOT_NUMBERS, -1, -1.0, "-1", 100.5, "100.5", 0.1, -0.1, "9007199254740993.5"])
def test_a_volume_is_a_whole_number_of_at_least_nothing(volume: Any) -> None:
    assert rule_of(bar(volume=volume)) == "ta_volume"


@pytest.mark.parametrize(
    ("volume", "read"),
    [
        (1, 1),
        (100.0, 100),
        ("100.0", 100),
        (" 1e3 ", 1000),
        ("+7.", 7),
        (2**63 - 1, 2**63 - 1),
        (f"{2**63 - 1}", 2**63 - 1),
    ],
)
def test_a_whole_number_is_a_volume_however_it_is_written(volume: Any, read: int) -> None:
    outcome = bar(volume=volume)
    assert isinstance(outcome, Bar)
    assert (outcome.volume, type(outcome.volume)) == (read, int)


@pytest.mark.parametrize("volume", [2**63, f"{2**63}", 1e19, "1e999999999", *HUGE[1:]])
def test_a_volume_beyond_a_bigint_passes_the_rules_and_ends_as_an_exception(volume: Any) -> None:
    outcome = bar(volume=volume)
    assert isinstance(outcome, Reject)
    assert (outcome.reason, outcome.rule_id) == ("exception", None)
    assert "volume=" in outcome.error_msg
    assert len(outcome.error_msg) < 200


@UNHURRIED
@given(st.integers(min_value=-(2**70), max_value=2**70), st.sampled_from([int, str]))
def test_any_integer_is_judged_exactly(volume: int, written: Any) -> None:
    outcome = bar(volume=written(volume), open=9, high=9, low=9, close=9)
    if volume < 0:
        assert rule_of(outcome) == "ta_volume"
    elif volume >= 2**63:
        assert rule_of(outcome) == "exception"
    else:
        assert isinstance(outcome, Bar)
        assert outcome.volume == volume


@pytest.mark.parametrize("other", ["open", "high", "low", "close"])
def test_without_volume_the_bar_is_a_dot(other: str) -> None:
    dot = {"open": 5, "high": 5, "low": 5, "close": 5}
    assert rule_of(bar(**dot, volume=0)) is None
    wider = {**dot, "high": 5.01} if other != "low" else {**dot, "low": 4.99}
    wider[other] = wider["high"] if other != "low" else wider["low"]
    assert rule_of(bar(**wider, volume=0)) == "ta_zero_volume"
    assert rule_of(bar(**wider, volume=0.0)) == "ta_zero_volume"
    assert rule_of(bar(**wider, volume=1)) is None


@pytest.mark.parametrize(
    ("currency", "read"), [(ABSENT, None), (None, None), ("", None), ("VND", "VND"), ("usd", "usd")]
)
def test_a_currency_is_kept_as_stated(currency: Any, read: str | None) -> None:
    outcome = bar(currency=currency)
    assert isinstance(outcome, Bar)
    assert outcome.currency == read


@pytest.mark.parametrize("currency", [5, True, [], ["VND"], {}, " ", "\n\t"])
def test_a_currency_that_is_stated_is_text(currency: Any) -> None:
    assert rule_of(bar(currency=currency)) == "ta_currency"
