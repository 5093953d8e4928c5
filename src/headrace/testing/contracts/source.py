"""A source: what its worker may rely on. An adapter passes with a fixture of a few lines:

class TestJobSource(SourceContract):
    features = JobSource.features

    @pytest.fixture
    async def supply(self, keyspace: str) -> AsyncIterator[SourceSupply]: ...

    @pytest.fixture
    def passage(self) -> Passage: ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from headrace.core.claims import CRASHES_MAX, Loss
from headrace.core.outcomes import Dead
from headrace.core.sources import HeldItem, ItemCandidate, ItemSettlement, ItemState, is_worker_lost
from headrace.ports.source import Source, SourceFeatures
from headrace.runtime.sources.context import SourceContext
from headrace.runtime.sources.options import SourceOptions
from headrace.runtime.sources.worker import SourceWorker
from headrace.testing.contracts.only import only
from headrace.testing.contracts.selection import Selected, needs
from headrace.testing.contracts.supply import SourceSupply, SuppliedItem
from headrace.testing.passage import Passage

COUNT_MAX, CLOCKS_S = 100, 1.0
# More than any poll asks for, and rounds enough for a source that must be refused each of them once.
OCCUPIED, ROUND, ROUNDS = 150, 8, 60
LOSS = Loss(0, "ValueError", "attempts_max", "ValueError: no", 3, "Traceback …")


class SourceContract(Selected):
    """`ports.source.Source`. Brings: `supply`, `passage`, and `handles` if several processes may share the rows; says
    in `features` what the source can do."""

    features = SourceFeatures()

    @pytest.fixture
    async def handles(self, supply: SourceSupply) -> Sequence[Source]:
        return [supply.source]

    # Poll and hold

    async def test_a_poll_sees_what_waits_and_holds_nothing(self, supply: SourceSupply, passage: Passage) -> None:
        keys = {await supply.add({"n": number}) for number in range(3)}
        assert await polled(supply) == keys
        assert await polled(supply) == keys
        assert len((await supply.source.poll(2)).candidates) == 2
        candidate = await one(supply, min(keys))
        assert await supply.source.hold(candidate, "b", passage.hold_s) is not None

    async def test_a_held_item_is_read_under_its_hold(self, supply: SourceSupply, passage: Passage) -> None:
        key = await supply.add({"n": 7})
        held = await hold(supply, key, passage.hold_s)
        assert (held.key, held.payload["n"], held.attempts) == (key, 7, 0)
        assert held.fence > 0
        assert (await supply.look(key)).state is None

    async def test_a_held_item_is_not_held_twice(self, supply: SourceSupply, passage: Passage) -> None:
        candidate = await one(supply, await supply.add({}))
        assert await supply.source.hold(candidate, "a", passage.hold_s) is not None
        assert await supply.source.hold(candidate, "b", passage.hold_s) is None

    @needs("holds_repeat")
    async def test_a_holder_that_asks_again_gets_the_same_hold(self, supply: SourceSupply, passage: Passage) -> None:
        candidate = await one(supply, await supply.add({}))
        first = await supply.source.hold(candidate, "a", passage.hold_s)
        again = await supply.source.hold(candidate, "a", passage.hold_s)
        assert first is not None
        assert again is not None
        assert (again.fence, again.attempts) == (first.fence, first.attempts)
        assert await supply.source.settle(again, done(supply, again))

    @needs("holds_repeat")
    async def test_a_repeated_hold_lasts_from_then_on(self, supply: SourceSupply, passage: Passage) -> None:
        candidate = await one(supply, await supply.add({}))
        assert await supply.source.hold(candidate, "a", 5 * passage.brief_s) is not None
        again = await supply.source.hold(candidate, "a", passage.hold_s + 10 * passage.brief_s)
        await passage.past(5 * passage.brief_s)
        assert again is not None
        assert await supply.source.renew(again, passage.hold_s)

    async def test_one_of_many_holds(self, supply: SourceSupply, handles: Sequence[Source], passage: Passage) -> None:
        candidate = await one(supply, await supply.add({}))
        holds = (handles[n % len(handles)].hold(candidate, f"worker-{n}", passage.hold_s) for n in range(9))
        assert len([held for held in await asyncio.gather(*holds) if held is not None]) == 1

    @pytest.mark.parametrize("state", ItemState)
    async def test_a_stale_candidate_is_not_held(
        self, supply: SourceSupply, passage: Passage, state: ItemState
    ) -> None:
        """It was seen before a settlement ended the item, or made it wait for later."""
        key = await supply.add({})
        candidate = await one(supply, key)
        held = await hold(supply, key, passage.hold_s)
        delay_s = 1_000.0 if state is ItemState.AGAIN else 0.0
        assert await supply.source.settle(held, settlement(supply, state, 1, delay_s=delay_s))
        assert await supply.source.hold(candidate, "b", passage.hold_s) is None
        assert (await supply.look(key)).attempts == 1
        assert key not in await polled(supply)

    async def test_what_others_hold_does_not_hide_the_rest(self, supply: SourceSupply, passage: Passage) -> None:
        for _ in range(OCCUPIED):
            await supply.occupy(await supply.add({}))
        key, held = await supply.add({}), set[str]()
        for _ in range(ROUNDS):
            held |= await polled_and_held(supply, "a", ROUND)
            if held:
                break
        assert held == {key}

    # Renewal and expiry

    async def test_a_renewed_hold_outlives_its_first_time(self, supply: SourceSupply, passage: Passage) -> None:
        key = await supply.add({})
        held = await hold(supply, key, 5 * passage.brief_s)
        assert await supply.source.renew(held, passage.hold_s + 10 * passage.brief_s)
        await passage.past(5 * passage.brief_s)
        await supply.sweep()
        assert key not in await polled_and_held(supply, "b")
        assert await supply.source.settle(held, done(supply, held))

    async def test_a_hold_that_has_passed_is_not_revived(self, supply: SourceSupply, passage: Passage) -> None:
        held = await brief_hold(supply, passage, await supply.add({}))
        await passage.past(passage.brief_s)
        assert not await supply.source.renew(held, passage.hold_s)

    async def test_what_a_lost_worker_held_comes_back_and_no_attempt_is_spent(
        self, supply: SourceSupply, passage: Passage
    ) -> None:
        key = await supply.add({"n": 1})
        lost = await brief_hold(supply, passage, key)
        await passage.past(passage.brief_s)
        await supply.sweep()
        taken = await hold(supply, key, passage.hold_s, "b")
        assert (taken.attempts, taken.payload["n"]) == (0, 1)
        assert taken.fence > lost.fence

    @pytest.mark.parametrize("state", ItemState)
    async def test_a_late_holder_changes_nothing(
        self, supply: SourceSupply, passage: Passage, state: ItemState
    ) -> None:
        key = await supply.add({})
        late = await brief_hold(supply, passage, key)
        await passage.past(passage.brief_s)
        await supply.sweep()
        taken = await hold(supply, key, passage.hold_s, "b")
        before = await supply.look(key)
        assert not await supply.source.settle(late, settlement(supply, state, 1))
        assert not await supply.source.give_back(late)
        assert not await supply.source.renew(late, passage.hold_s)
        assert await supply.look(key) == before
        assert await supply.source.renew(taken, passage.hold_s)
        assert await supply.source.settle(taken, done(supply, taken))
        assert not await supply.source.settle(late, settlement(supply, state, 1))
        assert await supply.look(key) == SuppliedItem(ItemState.DONE, 1)

    # Suspects

    @needs("suspects")
    async def test_an_item_of_a_lost_hold_is_suspect_and_not_charged(
        self, supply: SourceSupply, passage: Passage
    ) -> None:
        key = await supply.add({})
        assert guilt(await lost(supply, passage, key, supply.source.features.suspected_after)) == (False, 0)
        assert guilt(await hold(supply, key, passage.hold_s, "b")) == (True, 0)

    @needs("suspects")
    async def test_only_a_hold_that_was_lost_alone_is_charged(self, supply: SourceSupply, passage: Passage) -> None:
        key = await supply.add({})
        late = await lost(supply, passage, key, supply.source.features.suspected_after)
        assert not await supply.source.begin_alone(late)
        alone = await lost(supply, passage, key, alone=True)
        assert guilt(alone) == (True, 0)
        held = await lost(supply, passage, key)
        assert guilt(held) == (True, 1)
        assert held.attempts == 0
        # It was not begun alone the last time.
        assert guilt(await hold(supply, key, passage.hold_s, "b")) == (True, 1)

    @needs("suspects")
    async def test_a_suspect_that_is_given_back_is_still_one(self, supply: SourceSupply, passage: Passage) -> None:
        key = await supply.add({})
        await lost(supply, passage, key, supply.source.features.suspected_after)
        held = await hold(supply, key, passage.hold_s, "b")
        assert await supply.source.begin_alone(held)
        assert await supply.source.begin_alone(held)
        assert await supply.source.give_back(held)
        assert guilt(await hold(supply, key, passage.hold_s, "c")) == (True, 0)

    @needs("suspects")
    async def test_a_settlement_clears_a_suspect_and_keeps_its_crashes(
        self, supply: SourceSupply, passage: Passage
    ) -> None:
        key = await supply.add({})
        await lost(supply, passage, key, supply.source.features.suspected_after)
        await lost(supply, passage, key, alone=True)
        held = await hold(supply, key, passage.hold_s, "b")
        assert await supply.source.begin_alone(held)
        assert await supply.source.settle(held, settlement(supply, ItemState.AGAIN, 1))
        assert guilt(await hold(supply, key, passage.hold_s, "c")) == (False, 1)

    @needs("suspects")
    async def test_what_kills_its_worker_dies_after_so_many_crashes(
        self, supply: SourceSupply, passage: Passage
    ) -> None:
        key = await supply.add({})
        await lost(supply, passage, key, supply.source.features.suspected_after)
        await lost(supply, passage, key, CRASHES_MAX, alone=True)

        async def never(_payload: Any, _context: SourceContext) -> None:
            raise AssertionError("it is not to be started again")

        settled: list[ItemSettlement] = []

        def note(_held: HeldItem, settlement: ItemSettlement) -> None:
            settled.append(settlement)
            worker.drain()

        options = SourceOptions("contract", hold_s=passage.hold_s, poll_s=0.05, on_settled=note)
        worker = SourceWorker(supply.source, never, options)
        await worker.run()
        assert is_worker_lost(only(settled))
        item = await supply.look(key)
        assert (item.state, item.attempts) == (ItemState.DEAD, 0)

    # Settlements

    async def test_a_done_item_is_done(self, supply: SourceSupply, passage: Passage) -> None:
        key = await supply.add({})
        held = await hold(supply, key, passage.hold_s)
        assert await supply.source.settle(held, done(supply, held))
        assert await supply.look(key) == SuppliedItem(ItemState.DONE, 1)
        assert not await supply.source.renew(held, passage.hold_s)

    async def test_an_item_waits_again_until_it_is_due(self, supply: SourceSupply, passage: Passage) -> None:
        key = await supply.add({"n": 3})
        held = await hold(supply, key, passage.hold_s)
        assert await supply.source.settle(held, settlement(supply, ItemState.AGAIN, 1, delay_s=5 * passage.brief_s))
        assert key not in await polled_and_held(supply, "b")
        await passage.past(5 * passage.brief_s)
        again = await hold(supply, key, passage.hold_s, "b")
        assert (again.attempts, again.payload["n"]) == (1, 3)
        assert again.fence > held.fence

    async def test_what_waits_without_a_failure_has_spent_nothing(self, supply: SourceSupply, passage: Passage) -> None:
        key = await supply.add({})
        held = await hold(supply, key, passage.hold_s)
        snoozed = ItemSettlement(ItemState.AGAIN, held.attempts, decided_at(supply, 0.0))
        assert await supply.source.settle(held, snoozed)
        assert (await hold(supply, key, passage.hold_s)).attempts == 0

    async def test_a_dead_item_has_its_letter(self, supply: SourceSupply, passage: Passage) -> None:
        key = await supply.add({})
        held = await hold(supply, key, passage.hold_s)
        assert await supply.source.settle(held, settlement(supply, ItemState.DEAD, 3))
        item = await supply.look(key)
        assert (item.state, item.attempts) == (ItemState.DEAD, 3)
        assert "ValueError" in item.reason

    @pytest.mark.parametrize("state", ItemState)
    async def test_a_repeated_settlement_changes_nothing(
        self, supply: SourceSupply, passage: Passage, state: ItemState
    ) -> None:
        key = await supply.add({})
        held = await hold(supply, key, passage.hold_s)
        settled = settlement(supply, state, 1)
        assert await supply.source.settle(held, settled)
        first = await supply.look(key)
        assert await supply.source.settle(held, settled)
        assert await supply.look(key) == first
        seen = [candidate.key for candidate in (await supply.source.poll(COUNT_MAX)).candidates]
        assert seen == ([key] if state is ItemState.AGAIN else [])

    async def test_what_is_given_back_waits_at_once(self, supply: SourceSupply, passage: Passage) -> None:
        key = await supply.add({"n": 5})
        held = await hold(supply, key, passage.hold_s)
        assert await supply.source.give_back(held)
        assert await supply.source.give_back(held)
        taken = await hold(supply, key, passage.hold_s, "b")
        assert (taken.attempts, taken.payload["n"]) == (0, 5)
        assert taken.fence > held.fence
        assert not await supply.source.give_back(held)
        assert await supply.source.settle(taken, done(supply, taken))

    async def test_fences_rise_over_all_holds(self, supply: SourceSupply, passage: Passage) -> None:
        key, fences = await supply.add({}), []
        for attempt in range(1, 4):
            held = await hold(supply, key, passage.hold_s)
            fences.append(held.fence)
            assert await supply.source.settle(held, settlement(supply, ItemState.AGAIN, attempt))
            held = await hold(supply, key, passage.hold_s)
            fences.append(held.fence)
            assert await supply.source.give_back(held)
        assert fences == sorted(set(fences))

    # Progress, and the worker

    @needs("reports")
    async def test_progress_is_kept_under_the_hold_only(self, supply: SourceSupply, passage: Passage) -> None:
        held = await hold(supply, await supply.add({}), passage.hold_s)
        assert await supply.source.report(held, {"done": 1, "total": 3})
        assert await supply.source.report(held, {"done": 2, "total": 3})
        assert await supply.source.settle(held, done(supply, held))
        assert not await supply.source.report(held, {"done": 3, "total": 3})

    async def test_a_worker_brings_all_items_to_their_end(self, supply: SourceSupply, passage: Passage) -> None:
        keys = [await supply.add({"n": number}) for number in range(6)]
        settled: list[str] = []

        async def work(payload: Any, _context: SourceContext) -> Dead | None:
            return Dead("odd", "parity") if payload["n"] % 2 else None

        def note(held: HeldItem, _settlement: ItemSettlement) -> None:
            settled.append(held.key)
            if len(settled) == len(keys):
                worker.drain()

        worker = SourceWorker(
            supply.source, work, SourceOptions("contract", hold_s=passage.hold_s, poll_s=0.05, on_settled=note)
        )
        await worker.run()
        assert sorted(settled) == sorted(keys)
        states = [(await supply.look(key)).state for key in keys]
        assert states == [ItemState.DONE, ItemState.DEAD] * 3


async def polled(supply: SourceSupply) -> set[str]:
    return {candidate.key for candidate in (await supply.source.poll(COUNT_MAX)).candidates}


async def polled_and_held(supply: SourceSupply, holder: str, count_max: int = COUNT_MAX) -> set[str]:
    """What another worker gets: a poll may show more than can be held."""
    found = (await supply.source.poll(count_max)).candidates
    holds = [await supply.source.hold(candidate, holder, 30.0) for candidate in found]
    return {held.key for held in holds if held is not None}


async def one(supply: SourceSupply, key: str) -> ItemCandidate:
    """The candidate of a key that a poll must show."""
    candidates = (await supply.source.poll(COUNT_MAX)).candidates
    return only([candidate for candidate in candidates if candidate.key == key])


async def hold(supply: SourceSupply, key: str, hold_s: float, holder: str = "a") -> HeldItem:
    held = await supply.source.hold(await one(supply, key), holder, hold_s)
    assert held is not None
    return held


async def brief_hold(
    supply: SourceSupply, passage: Passage, key: str, holder: str = "a", alone: bool = False
) -> HeldItem:
    """A hold that a test can see pass, and that has lasted until all was done under it: its last renewal is brief."""
    held = await hold(supply, key, passage.hold_s, holder)
    assert not alone or await supply.source.begin_alone(held)
    assert await supply.source.renew(held, passage.brief_s)
    return held


async def lost(supply: SourceSupply, passage: Passage, key: str, times: int = 1, alone: bool = False) -> HeldItem:
    """Let a worker hold an item and be gone, so many times; the last of these holds."""
    for _ in range(times):
        held = await brief_hold(supply, passage, key, "gone", alone)
        await passage.past(passage.brief_s)
        await supply.sweep()
    return held


def guilt(held: HeldItem) -> tuple[bool, int]:
    return held.suspect, held.crashes


def settlement(supply: SourceSupply, state: ItemState, attempts: int, delay_s: float = 0.0) -> ItemSettlement:
    """What a worker says of an attempt that failed, or was done."""
    failure = None if state is ItemState.DONE else LOSS
    return ItemSettlement(state, attempts, decided_at(supply, delay_s), delay_s=delay_s, failure=failure)


def decided_at(supply: SourceSupply, delay_s: float) -> float:
    """Now; for what is due at once a moment ago, because the source's clock may be a little behind."""
    return supply.wall() - (0.0 if delay_s else CLOCKS_S)


def done(supply: SourceSupply, held: HeldItem) -> ItemSettlement:
    return settlement(supply, ItemState.DONE, held.attempts + 1)
