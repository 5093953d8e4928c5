"""One leader on SQLite, and twins without its guards that the contract notices."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import ClaimLost
from headrace.services.leadership import MARGIN, Leadership, Term
from headrace.testing.contracts import LeaderContract
from headrace.testing.contracts.leader import frozen_leader
from headrace.testing.passage import ManualClock
from headrace.testing.twins import turns_red


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


class TestSqliteLeader(LeaderContract):
    pass


class NeverRenews(Leadership):
    async def renew(self, term: Term) -> None:
        await asyncio.Event().wait()


class NeverEnds(Leadership):
    """Believes that its lease lasts for as long as nobody says otherwise."""

    def fenced(self, loop: Coroutine[Any, Any, None], term: Term) -> Coroutine[Any, Any, None]:
        term.ends_at += term.hold_s * (MARGIN + 0.1)
        return super().fenced(loop, term)


class Restless(Leadership):
    """Leads whatever it is given, also what is nearly over."""

    def too_short(self, term: Term) -> bool:
        return False


async def test_a_leader_that_does_not_renew_is_noticed(url: str) -> None:
    await turns_red(LeaderContract.test_of_two_one_leads_for_longer_than_a_hold, url=url, leadership=NeverRenews)


async def test_a_leader_that_does_not_fence_itself_is_noticed(url: str) -> None:
    test = LeaderContract.test_a_leader_that_hears_nothing_ends_its_loop_before_its_lease_ends
    await turns_red(test, url=url, leadership=NeverEnds)


async def test_a_leader_that_does_not_rest_is_noticed(url: str) -> None:
    test = LeaderContract.test_a_lease_that_can_be_neither_renewed_nor_released_is_not_led_again_without_a_pause
    await turns_red(test, url=url, leadership=Restless)


async def test_a_leader_that_does_not_ask_the_clock_after_a_freeze_is_noticed(url: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        await frozen_leader(url, tmp_path / "lines", "unfenced")


def test_a_term_that_is_over_says_so() -> None:
    clock = ManualClock()
    term = Term("a", 7, 10.0, clock.monotonic() + 10.0, clock)
    term.check()
    clock.advance(10.0)
    with pytest.raises(ClaimLost) as lost:
        term.check()
    assert lost.value.fence == 7
