"""What a worker makes of a poll: which candidates it tries, in which order, and when it polls again."""

from __future__ import annotations

from random import Random

import pytest

from headrace.runtime.sources.stock import COUNT_MIN, Stock
from headrace.sources import ItemCandidate, Polled

POLL_S = 0.5


@pytest.fixture
def stock() -> Stock:
    return Stock(Random(1), POLL_S)


def filled(stock: Stock, count: int, wait_s: float | None = None) -> list[str]:
    candidates = tuple(ItemCandidate(f"i{number}") for number in range(count))
    stock.fill(Polled(candidates, wait_s), stock.begin(1), 10.0)
    return [candidate.key for candidate in candidates]


def taken(stock: Stock, now: float) -> list[str]:
    found: list[str] = []
    while (candidate := stock.take(now)) is not None:
        found.append(candidate.key)
    return found


def test_all_are_tried_in_another_order_than_they_were_seen(stock: Stock) -> None:
    seen = filled(stock, 20)
    tried = taken(stock, 10.1)
    assert sorted(tried) == sorted(seen)
    assert tried != seen
    assert tried != list(reversed(seen))


def test_what_was_seen_too_long_ago_is_not_tried(stock: Stock) -> None:
    filled(stock, 20)
    assert taken(stock, 10.0 + POLL_S + 0.01) == []


def test_more_is_asked_for_than_there_is_room(stock: Stock) -> None:
    assert stock.begin(1) == COUNT_MIN
    assert stock.begin(100) == 200


def test_the_next_poll_waits(stock: Stock) -> None:
    assert stock.polls_in_s(10.0) == 0
    filled(stock, 1)
    assert 0.75 * POLL_S <= stock.polls_in_s(10.0) <= POLL_S
    filled(stock, 1, wait_s=0.1)
    assert stock.polls_in_s(10.0) == pytest.approx(0.1)


def test_there_may_be_more_than_a_full_answer_holds(stock: Stock) -> None:
    filled(stock, COUNT_MIN)
    assert stock.polls_in_s(10.0) > 0, "nothing was held: a fight of workers is not fought harder"
    stock.gained = True
    assert stock.polls_in_s(10.0) == 0


def test_a_ring_asks_for_a_poll(stock: Stock) -> None:
    filled(stock, 1)
    stock.due = True
    assert stock.polls_in_s(10.0) == 0
