"""The source in memory passes the contract of sources, and each of its guards is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from headrace.core.sources import HeldItem, ItemCandidate, ItemSettlement, ItemState
from headrace.ports.source import SourceFeatures
from headrace.testing.contracts import SourceContract, SuppliedItem
from headrace.testing.memory_source import MemorySource
from headrace.testing.passage import ManualClock, Passage
from headrace.testing.simulation.sources.bugs import (
    AcquitsGivenBack,
    BeginsUnfenced,
    ChargesEveryLoss,
    ChargesGivenBack,
    ChargesLostHolds,
    FencesAnew,
    ForgetsCrashes,
    ForgetsLosses,
    GivesBackToNobody,
    HoldsUnread,
    RevivesHolds,
    SettlesUnfenced,
    ShowsHeld,
)
from headrace.testing.twins import turns_red


@dataclass(slots=True)
class MemorySupply:
    """A source in memory, filled and read by tests."""

    clock: ManualClock
    source: MemorySource
    numbers: Any = field(default_factory=lambda: count(1))

    def wall(self) -> float:
        return self.clock.wall()

    async def add(self, payload: Mapping[str, object]) -> str:
        key = f"item-{next(self.numbers)}"
        self.source.add(key, payload)
        return key

    async def look(self, key: str) -> SuppliedItem:
        row = self.source.rows[key]
        return SuppliedItem(row.state, row.attempts, row.failure.reason if row.failure else "")

    async def occupy(self, key: str) -> None:
        self.source.occupy(key)

    async def sweep(self) -> None:
        """The poll shows what lost holds had."""


class TestMemorySource(SourceContract):
    @pytest.fixture
    def supply(self, clock: ManualClock) -> MemorySupply:
        return MemorySupply(clock, MemorySource(clock))


def test_what_a_source_cannot_do_is_left_out() -> None:
    class Poor(SourceContract):
        features = SourceFeatures(holds_repeat=False, reports=False)

    assert Poor.test_progress_is_kept_under_the_hold_only is None
    assert Poor.test_a_holder_that_asks_again_gets_the_same_hold is None
    assert SourceContract.test_progress_is_kept_under_the_hold_only is not None


class HoldsTwice(MemorySource):
    """Gives an item to whoever asks."""

    async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
        self.rows[candidate.key].holder = ""
        return await super().hold(candidate, holder, hold_s)


class HoldsEarly(MemorySource):
    """Does not ask whether the item is due."""

    async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
        self.rows[candidate.key].due_at = 0.0
        return await super().hold(candidate, holder, hold_s)


class AnswersOldHolds(MemorySource):
    """Answers a repeated hold with what is left of the first."""

    async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
        until = self.rows[candidate.key].until
        held = await super().hold(candidate, holder, hold_s)
        self.rows[candidate.key].until = until or self.rows[candidate.key].until
        return held


class KnowsNoRepeat(MemorySource):
    """Takes a repeat for a late holder."""

    def _repeated(self, held: HeldItem, settlement: ItemSettlement | None) -> bool:
        return False


class KeepsHolds(MemorySource):
    """Shows nothing of what a lost worker held."""

    def _is_held(self, row: Any, now: float) -> bool:
        return bool(row.holder)


class ReportsUnfenced(MemorySource):
    """Keeps the progress of whoever says any."""

    async def report(self, held: HeldItem, progress: Mapping[str, object]) -> bool:
        return True


class NeverAcquits(MemorySource):
    """Once a suspect, always one."""

    async def settle(self, held: HeldItem, settlement: ItemSettlement) -> bool:
        suspect = self.rows[held.key].suspect
        settled = await super().settle(held, settlement)
        self.rows[held.key].suspect = suspect
        return settled


TWINS: list[tuple[type[MemorySource], str]] = [
    (SettlesUnfenced, "test_a_late_holder_changes_nothing"),
    (HoldsUnread, "test_a_stale_candidate_is_not_held"),
    (HoldsEarly, "test_a_stale_candidate_is_not_held"),
    (GivesBackToNobody, "test_what_is_given_back_waits_at_once"),
    (ChargesGivenBack, "test_what_is_given_back_waits_at_once"),
    (ChargesLostHolds, "test_what_a_lost_worker_held_comes_back_and_no_attempt_is_spent"),
    (FencesAnew, "test_fences_rise_over_all_holds"),
    (RevivesHolds, "test_a_hold_that_has_passed_is_not_revived"),
    (HoldsTwice, "test_a_held_item_is_not_held_twice"),
    (HoldsTwice, "test_one_of_many_holds"),
    (HoldsTwice, "test_a_holder_that_asks_again_gets_the_same_hold"),
    (ShowsHeld, "test_what_others_hold_does_not_hide_the_rest"),
    (AnswersOldHolds, "test_a_repeated_hold_lasts_from_then_on"),
    (KnowsNoRepeat, "test_a_repeated_settlement_changes_nothing"),
    (KeepsHolds, "test_what_a_lost_worker_held_comes_back_and_no_attempt_is_spent"),
    (ForgetsLosses, "test_an_item_of_a_lost_hold_is_suspect_and_not_charged"),
    (ChargesEveryLoss, "test_an_item_of_a_lost_hold_is_suspect_and_not_charged"),
    (ForgetsCrashes, "test_only_a_hold_that_was_lost_alone_is_charged"),
    (BeginsUnfenced, "test_only_a_hold_that_was_lost_alone_is_charged"),
    (AcquitsGivenBack, "test_a_suspect_that_is_given_back_is_still_one"),
    (ForgetsCrashes, "test_a_settlement_clears_a_suspect_and_keeps_its_crashes"),
    (NeverAcquits, "test_a_settlement_clears_a_suspect_and_keeps_its_crashes"),
    (ReportsUnfenced, "test_progress_is_kept_under_the_hold_only"),
]


@pytest.mark.parametrize(("broken", "test"), TWINS)
async def test_a_broken_source_is_noticed(
    broken: type[MemorySource], test: str, clock: ManualClock, passage: Passage
) -> None:
    source = broken(clock)
    supply = MemorySupply(clock, source)
    state = ItemState.AGAIN if broken is HoldsEarly else ItemState.DONE
    await turns_red(getattr(SourceContract, test), supply=supply, passage=passage, handles=[source], state=state)
