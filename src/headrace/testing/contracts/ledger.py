"""The ledger: an item counts once, the finish line is crossed once, and what is announced is committed with it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from random import Random

import pytest

from headrace.core.errors import CallerError, Conflict
from headrace.core.events import Event
from headrace.core.ledgers import Account, AccountTally, Entry
from headrace.ports.parts import Parts
from headrace.testing.contracts.only import only

NAME = "acme/p1"


def entries(*items: str, ok: bool = True) -> list[Entry]:
    return [Entry(item, ok) for item in items]


async def announced(store: Parts) -> list[Event]:
    """What the outbox holds; it stays unpublished."""
    batch = await store.outbox.claim("witness", 100, 30.0)
    await store.outbox.release(batch.fence, [event.event_id for event in batch.events])
    return list(batch.events)


class LedgerContract:
    """`ports.ledger.Ledger`. Brings: `store` (Parts), `handles`."""

    @pytest.fixture
    async def opened(self, store: Parts) -> Parts:
        assert await store.ledger.open(Account(NAME))
        return store

    @pytest.fixture
    async def handles(self, store: Parts) -> Sequence[Parts]:
        return [store]

    async def test_an_account_opens_once(self, opened: Parts) -> None:
        await opened.ledger.expect(NAME, 3, "crawler")
        assert not await opened.ledger.open(Account(NAME, topic="other.topic"))
        assert await opened.ledger.tally(NAME) == AccountTally(NAME, total=3)

    async def test_an_account_that_is_not_there_is_absent_and_stays_so(self, store: Parts) -> None:
        for posted in (
            await store.ledger.expect(NAME, 1, "crawler"),
            await store.ledger.seal(NAME),
            await store.ledger.settle(NAME, entries("i1")),
        ):
            assert (posted.accepted, posted.reason, posted.tally) == (False, "absent", None)
        assert await store.ledger.tally(NAME) is None
        await store.ledger.open(Account(NAME))
        assert (await store.ledger.settle(NAME, entries("i1"))).new == ("i1",)

    async def test_each_source_expects_once(self, opened: Parts) -> None:
        await opened.ledger.expect(NAME, 3, "crawler")
        await opened.ledger.expect(NAME, 4, "importer")
        again = await opened.ledger.expect(NAME, 3, "crawler")
        assert again.accepted
        assert again.tally == AccountTally(NAME, total=7)
        with pytest.raises(Conflict, match="crawler"):
            await opened.ledger.expect(NAME, 5, "crawler")

    async def test_an_item_counts_once_by_its_first_entry(self, opened: Parts) -> None:
        first = await opened.ledger.settle(NAME, [*entries("i1", "i2", "i1"), *entries("i3", ok=False)])
        again = await opened.ledger.settle(NAME, [*entries("i1", ok=False), *entries("i3", "i4")])
        assert (first.new, again.new) == (("i1", "i2", "i3"), ("i4",))
        assert await opened.ledger.tally(NAME) == AccountTally(NAME, done=3, errors=1)

    async def test_the_last_item_of_a_sealed_account_crosses_the_line(self, opened: Parts) -> None:
        await opened.ledger.expect(NAME, 3, "crawler")
        assert not (await opened.ledger.settle(NAME, entries("i1"))).crossed
        assert not (await opened.ledger.seal(NAME)).crossed
        assert not (await opened.ledger.settle(NAME, entries("i1", "i2"))).crossed
        last = await opened.ledger.settle(NAME, entries("i2", "i3", ok=False))
        assert (last.new, last.crossed) == (("i3",), True)
        assert last.tally == AccountTally(NAME, 3, 2, 1, sealed=True, finished=True)

    async def test_nothing_finishes_before_the_seal(self, opened: Parts) -> None:
        await opened.ledger.expect(NAME, 2, "crawler")
        posted = await opened.ledger.settle(NAME, entries("i1", "i2"))
        assert not posted.crossed
        assert not (posted.tally or AccountTally(NAME)).finished
        assert await announced(opened) == []

    async def test_a_seal_crosses_the_line_when_everything_has_ended(self, opened: Parts) -> None:
        await opened.ledger.expect(NAME, 2, "crawler")
        await opened.ledger.settle(NAME, entries("i1", "i2"))
        sealed = await opened.ledger.seal(NAME)
        assert (sealed.accepted, sealed.crossed) == (True, True)

    async def test_an_empty_account_finishes_at_its_seal(self, opened: Parts) -> None:
        sealed = await opened.ledger.seal(NAME, 0)
        assert sealed.crossed
        assert sealed.tally == AccountTally(NAME, sealed=True, finished=True)

    async def test_a_repeat_crosses_nothing_and_announces_nothing_more(self, opened: Parts) -> None:
        await opened.ledger.seal(NAME, 1)
        answers = [await opened.ledger.settle(NAME, entries("i1")) for _ in range(3)]
        assert [answer.crossed for answer in answers] == [True, False, False]
        seals = [await opened.ledger.seal(NAME), await opened.ledger.seal(NAME, 1)]
        assert [(seal.accepted, seal.crossed) for seal in seals] == [(True, False), (True, False)]
        assert len(await announced(opened)) == 1

    async def test_the_finish_is_announced_with_its_counts(self, store: Parts) -> None:
        await store.ledger.open(Account(NAME, "project.done", {"traceparent": "00-ab"}))
        await store.ledger.settle(NAME, [Entry("i1"), Entry("i2", ok=False)])
        await store.ledger.seal(NAME, 2)
        event = only(await announced(store))
        assert (event.event_id, event.topic, event.key) == (f"{NAME}.finished", "project.done", NAME)
        assert dict(event.headers) == {"traceparent": "00-ab"}
        assert json.loads(event.body) == {"account": NAME, "total": 2, "done": 1, "errors": 1}

    async def test_a_sealed_total_is_fixed(self, opened: Parts) -> None:
        await opened.ledger.expect(NAME, 2, "crawler")
        await opened.ledger.seal(NAME)
        late = await opened.ledger.expect(NAME, 1, "importer")
        other = await opened.ledger.seal(NAME, 5)
        assert [(posted.accepted, posted.reason) for posted in (late, other)] == [(False, "sealed"), (False, "sealed")]
        assert (await opened.ledger.expect(NAME, 2, "crawler")).accepted
        assert await opened.ledger.tally(NAME) == AccountTally(NAME, total=2, sealed=True)

    async def test_a_seal_below_what_has_ended_is_refused(self, opened: Parts) -> None:
        await opened.ledger.expect(NAME, 1, "crawler")
        await opened.ledger.settle(NAME, entries("i1", "i2"))
        short = await opened.ledger.seal(NAME)
        assert (short.accepted, short.reason) == (False, "short")
        await opened.ledger.expect(NAME, 1, "importer")
        assert (await opened.ledger.seal(NAME)).crossed

    async def test_a_sealed_account_counts_no_more_than_its_total(self, opened: Parts) -> None:
        await opened.ledger.seal(NAME, 2)
        posted = await opened.ledger.settle(NAME, entries("i1", "i2", "i3"))
        assert (posted.new, posted.surplus, posted.crossed) == (("i1", "i2"), ("i3",), True)
        late = await opened.ledger.settle(NAME, entries("i2", "i4"))
        assert (late.new, late.surplus, late.crossed) == ((), ("i4",), False)
        assert late.tally == AccountTally(NAME, 2, 2, 0, sealed=True, finished=True)

    async def test_accounts_do_not_disturb_each_other(self, opened: Parts) -> None:
        await opened.ledger.open(Account("other/p1"))
        await opened.ledger.seal("other/p1", 1)
        await opened.ledger.seal(NAME, 1)
        assert (await opened.ledger.settle(NAME, entries("i1"))).crossed
        assert await opened.ledger.tally("other/p1") == AccountTally("other/p1", total=1, sealed=True)
        assert (await opened.ledger.settle("other/p1", entries("i1"))).crossed

    async def test_what_cannot_be_meant_is_refused(self, opened: Parts) -> None:
        with pytest.raises(CallerError):
            await opened.ledger.expect(NAME, -1, "crawler")
        with pytest.raises(CallerError):
            await opened.ledger.seal(NAME, -1)
        with pytest.raises(CallerError):
            await opened.ledger.settle(NAME, [Entry("")])
        with pytest.raises(CallerError):
            Account("")

    @pytest.mark.parametrize("seed", range(4))
    async def test_many_hands_finish_an_account_once(self, opened: Parts, handles: Sequence[Parts], seed: int) -> None:
        chance = Random(seed)
        items = [f"i{number}" for number in range(60)]
        crossings: list[bool] = []

        async def hand(store: Parts, own: Random) -> None:
            for _ in range(12):
                chosen = own.sample(items, 12)
                posted = await store.ledger.settle(NAME, [Entry(item, own.random() < 0.8) for item in chosen])
                crossings.append(posted.crossed)

        async def seal(store: Parts) -> None:
            await store.ledger.expect(NAME, 40, "crawler")
            await store.ledger.expect(NAME, 20, "importer")
            crossings.append((await store.ledger.seal(NAME)).crossed)

        hands = [hand(handles[n % len(handles)], Random(seed * 100 + n)) for n in range(6)] + [seal(handles[-1])]
        chance.shuffle(hands)
        await asyncio.gather(*hands)
        crossings.append((await opened.ledger.settle(NAME, entries(*items))).crossed)
        assert sum(crossings) == 1
        tally = await opened.ledger.tally(NAME)
        assert tally is not None
        assert (tally.total, tally.ended, tally.sealed, tally.finished) == (60, 60, True, True)
        assert [event.event_id for event in await announced(opened)] == [f"{NAME}.finished"]
