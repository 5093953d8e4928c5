"""Daily bands and tick sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_silver.market import price_bands
from headrace_silver.market.price_bands import HNX, HOSE, UNKNOWN, UPCOM, Candidate, judge_band, tick


@pytest.mark.parametrize(
    ("exchange", "symbol", "price", "step"),
    [
        (HOSE, "VNM", 9_990, 10),
        (HOSE, "VNM", 10_000, 50),
        (HOSE, "VNM", 49_950, 50),
        (HOSE, "VNM", 50_000, 100),
        (HOSE, "E1VFVN30", 23_000, 10),
        (HOSE, "FUEVFVND", 60_000, 10),
        (HOSE, "CVNM2401", 12_000, 10),
        (HNX, "SHS", 9_000, 100),
        (UPCOM, "BSR", 60_000, 100),
    ],
)
def test_the_step_follows_the_exchange_the_kind_and_the_price(
    exchange: str, symbol: str, price: float, step: int
) -> None:
    assert tick(exchange, symbol, price) == step


@given(st.integers(1, 20_000), st.sampled_from([HOSE, HNX, UPCOM]))
def test_a_price_in_thousands_is_on_its_step_when_it_is_multiplied(steps: int, exchange: str) -> None:
    price = steps * tick(exchange, "VNM", 1)
    price -= price % tick(exchange, "VNM", price)
    assert price_bands.is_on_tick(exchange, "VNM", price / 1000 * 1000.0)
    assert not price_bands.is_on_tick(exchange, "VNM", (price + 3) / 1000 * 1000.0)


@pytest.mark.parametrize(
    ("exchange", "inside", "outside"),
    [(HOSE, 10_700, 10_710), (HNX, 11_000, 11_100), (UPCOM, 11_500, 11_600)],
)
def test_the_ceiling_belongs_to_the_band(exchange: str, inside: float, outside: float) -> None:
    assert not judge_band(exchange, Candidate("VNM", 10_000, 10_000, inside, 0))
    assert judge_band(exchange, Candidate("VNM", 10_000, 10_000, outside, 0))


@pytest.mark.parametrize(
    ("exchange", "inside", "outside"), [(HOSE, 9_300, 9_290), (HNX, 9_000, 8_900), (UPCOM, 8_500, 8_400)]
)
def test_the_floor_belongs_to_the_band(exchange: str, inside: float, outside: float) -> None:
    assert not judge_band(exchange, Candidate("VNM", 10_000, inside, 10_000, 0))
    assert judge_band(exchange, Candidate("VNM", 10_000, outside, 10_000, 0))


def test_a_cheap_share_may_move_by_one_step() -> None:
    assert not judge_band(HOSE, Candidate("VNM", 100, 90, 110, 0))
    assert judge_band(HOSE, Candidate("VNM", 100, 80, 100, 0))


def test_a_share_that_was_suspended_for_long_has_a_wider_band() -> None:
    assert not judge_band(HOSE, Candidate("VNM", 10_000, 8_000, 12_000, price_bands.SUSPENDED_DAYS + 1))
    assert judge_band(HOSE, Candidate("VNM", 10_000, 8_000, 12_100, price_bands.SUSPENDED_DAYS + 1))


def test_over_days_without_a_bar_the_bands_add_up() -> None:
    assert not judge_band(HOSE, Candidate("VNM", 10_000, 8_650, 11_440, 1))
    assert judge_band(HOSE, Candidate("VNM", 10_000, 8_650, 11_450, 1))
    assert judge_band(HOSE, Candidate("VNM", 10_000, 8_640, 11_440, 1))


def test_the_limits_of_a_warrant_are_not_its_own() -> None:
    assert not judge_band(HOSE, Candidate("CVNM2401", 1_000, 500, 2_000, 0))


def test_nothing_can_be_said_without_a_reference() -> None:
    assert not judge_band(HOSE, Candidate("VNM", 0, 0, 10_000, 0))


def test_the_first_day_has_a_wider_band() -> None:
    assert not judge_band(UPCOM, Candidate("VNM", 10_000, 6_000, 14_000, 0, is_first=True))
    assert judge_band(UPCOM, Candidate("VNM", 10_000, 6_000, 14_100, 0, is_first=True))


def test_on_an_unknown_exchange_only_what_none_allows_is_odd() -> None:
    assert not judge_band(UNKNOWN, Candidate("VNM", 10_000, 8_500, 11_500, 0))
    assert judge_band(UNKNOWN, Candidate("VNM", 10_000, 8_490, 11_500, 0))
    assert price_bands.is_on_tick(UNKNOWN, "VNM", 60_010)
    assert not price_bands.is_on_tick(UNKNOWN, "VNM", 60_005)
