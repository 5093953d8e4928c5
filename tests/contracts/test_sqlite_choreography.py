"""Outbox, inbox, bus, ledger and leases on SQLite keep their contracts, in memory and in a file that handles share."""

from __future__ import annotations

import pytest
from sqlite_handles import InAFile

from headrace.adapters.sqlite.database import InlineDatabase
from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.consequences import Consequence
from headrace.core.deliveries import Subscription
from headrace.core.errors import CallerError
from headrace.core.events import Event
from headrace.core.ledgers import Account, Entry
from headrace.ports.parts import Parts
from headrace.services.locks import LockClient
from headrace.testing.contracts import (
    BusContract,
    LeasesContract,
    LedgerContract,
    LockClientContract,
    OutboxContract,
)
from headrace.testing.passage import ManualClock


class TestSqliteInline(OutboxContract, BusContract, LedgerContract, LeasesContract, LockClientContract):
    @pytest.fixture
    async def store(self, clock: ManualClock) -> Parts:
        return SqliteStore(InlineDatabase(), clock)


class TestSqliteInAFile(InAFile, OutboxContract, BusContract, LedgerContract, LeasesContract): ...


async def test_the_fences_of_a_store_are_not_drawn_apart() -> None:
    locks = LockClient(SqliteStore(InlineDatabase(), ManualClock()).leases)
    with pytest.raises(CallerError, match="come with its grants"):
        await locks.next_seq("job:7")


@pytest.mark.parametrize("count", [500, 2_000])
async def test_a_relay_reads_a_long_line_of_one_key_once(count: int) -> None:
    database, steps = InlineDatabase(), 0

    def step() -> bool:
        nonlocal steps
        steps += 1
        return False

    store = SqliteStore(database, ManualClock())
    await store.outbox.add([Event(f"e{number}", "a", b"", "one line") for number in range(count)])
    database.connection.set_progress_handler(step, 100)
    assert len((await store.outbox.claim("relay", count, 30.0)).events) == count
    assert steps * 100 < 400 * count


DAY_S = 86_400.0


class TestWhatIsForgotten:
    @pytest.fixture
    async def store(self, clock: ManualClock) -> SqliteStore:
        return SqliteStore(InlineDatabase(), clock)

    async def test_published_events_go_after_a_week_and_others_stay(
        self, store: SqliteStore, clock: ManualClock
    ) -> None:
        await store.outbox.add([Event("e1", "a"), Event("e2", "a")])
        batch = await store.outbox.claim("relay", 1, 30.0)
        await store.outbox.published(batch.fence, ["e1"])
        clock.advance(6 * DAY_S)
        assert await store.outbox.retain() == 0
        clock.advance(2 * DAY_S)
        assert await store.outbox.retain() == 1
        assert await store.outbox.add([Event("e1", "a"), Event("e2", "a")]) == [True, False]

    async def test_a_consumed_message_is_remembered_for_a_month(self, store: SqliteStore, clock: ManualClock) -> None:
        await store.inbox.consume("s", "m1", Consequence())
        clock.advance(29 * DAY_S)
        await store.outbox.retain()
        assert not (await store.inbox.consume("s", "m1", Consequence())).new
        clock.advance(2 * DAY_S)
        assert await store.outbox.retain() == 1
        assert (await store.inbox.consume("s", "m1", Consequence())).new

    async def test_a_finished_account_goes_after_its_announcement_is_told(
        self, store: SqliteStore, clock: ManualClock
    ) -> None:
        await store.ledger.open(Account("acme/p1"))
        await store.ledger.expect("acme/p1", 1, "crawler")
        await store.ledger.settle("acme/p1", [Entry("i1")])
        await store.ledger.seal("acme/p1")
        clock.advance(40 * DAY_S)
        assert await store.outbox.retain() == 0
        batch = await store.outbox.claim("relay", 10, 30.0)
        await store.outbox.published(batch.fence, ["acme/p1.finished"])
        clock.advance(8 * DAY_S)
        assert await store.outbox.retain() == 4
        assert await store.ledger.tally("acme/p1") is None

    async def test_an_open_account_stays(self, store: SqliteStore, clock: ManualClock) -> None:
        await store.ledger.open(Account("acme/p1"))
        clock.advance(400 * DAY_S)
        assert await store.outbox.retain() == 0
        assert await store.ledger.tally("acme/p1") is not None

    async def test_messages_go_a_day_after_everybody_has_dealt_with_them(
        self, store: SqliteStore, clock: ManualClock
    ) -> None:
        for name in ("a", "b"):
            await store.bus.subscribe(Subscription(name, ("#",)))
        await store.bus.publish([Event("m1", "page.found"), Event("m2", "page.found")])
        for name in ("a", "b"):
            await store.bus.ack((await store.bus.receive(name, "test", 1, 30.0)).deliveries)
        await store.bus.ack((await store.bus.receive("a", "test", 1, 30.0)).deliveries)
        clock.advance(2 * DAY_S)
        assert await store.bus.retain() == 4
        assert (await store.bus.backlog("b")).waiting == 1
        (left,) = (await store.bus.receive("b", "test", 10, 30.0)).deliveries
        assert left.event.event_id == "m2"

    async def test_a_jump_of_the_wall_clock_takes_no_live_hold(self, store: SqliteStore, clock: ManualClock) -> None:
        lease = (await store.leases.acquire("bucket", "a", 30.0)).lease
        await store.bus.subscribe(Subscription("a", ("#",)))
        await store.bus.publish([Event("m1", "page.found")])
        taken = (await store.bus.receive("a", "test", 1, 30.0)).deliveries
        clock.jump_wall(3_600.0)
        assert not (await store.leases.takeover("bucket", "b", lease.epoch, 30.0)).granted
        assert (await store.bus.receive("a", "other", 1, 30.0)).deliveries == ()
        clock.jump_wall(-7_200.0)
        assert await store.bus.renew(taken, 30.0) == [True]
        await store.leases.release("bucket", lease.fence)
        again = await store.leases.acquire("bucket", "b", 30.0)
        assert again.lease.fence > lease.fence
