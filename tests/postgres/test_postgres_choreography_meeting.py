"""Transactions of outbox, inbox and ledger that meet in the middle, as they can on a server with concurrent commits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from waiting import PATIENCE_S, eventually

import headrace
from headrace import Flow, JobState
from headrace.adapters.postgres.statements import statements
from headrace.adapters.postgres.store import PostgresStore
from headrace.core.consequences import Consequence
from headrace.core.deliveries import Subscription
from headrace.core.events import Event
from headrace.core.ledgers import Account, Entry
from headrace.ports import DeadFilter

Connection = psycopg.Connection[Any]
ADD = "SELECT headrace.add_events(ARRAY[%s], ARRAY['a.b'], ARRAY[%s], ARRAY[''::bytea], ARRAY['{}'])"
PUBLISH = "SELECT headrace.publish(ARRAY['m1'], ARRAY['a.b'], ARRAY[''], ARRAY['{}'], ARRAY[0.0], ARRAY[''::bytea])"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@contextmanager
def open_transaction(url: str) -> Iterator[Connection]:
    """A transaction that somebody else has begun; it commits at the end of the block unless it is rolled back."""
    with psycopg.connect(url) as connection:
        yield connection


async def somebody_waits(url: str) -> None:
    """Until a session of this database waits for a lock."""
    with psycopg.connect(url, autocommit=True) as connection:
        await eventually(lambda: connection.execute(WAITING).fetchone() != (0,), "a session waits for a lock")


def change(url: str, function: str, guard: str, instead: str) -> None:
    """Make a function anew with another text in the place of a guard."""
    with psycopg.connect(url, autocommit=True) as connection:
        found: Any = connection.execute(f"SELECT pg_get_functiondef('headrace.{function}'::regproc)").fetchone()
        assert guard in found[0]
        connection.execute(found[0].replace(guard, instead).encode())


async def claimed(store: PostgresStore) -> list[str]:
    batch = await store.outbox.claim("relay", 10, 30.0)
    return [event.event_id for event in batch.events]


async def test_an_event_behind_one_that_is_being_claimed_waits(store: PostgresStore, postgres_url: str) -> None:
    await store.outbox.add([Event("e1", "a.b", key="k"), Event("e2", "a.b", key="k"), Event("e3", "a.b")])
    with open_transaction(postgres_url) as other:
        other.execute("SELECT 1 FROM headrace.event WHERE event_id = 'e1' FOR UPDATE")
        assert await claimed(store) == ["e3"]
    assert await claimed(store) == ["e1", "e2"]


async def test_without_a_second_look_an_event_would_overtake(store: PostgresStore, postgres_url: str) -> None:
    change(postgres_url, "claim_events", "l.left_out IS NULL OR m.id < l.left_out", "true")
    with pytest.raises(AssertionError):
        await test_an_event_behind_one_that_is_being_claimed_waits(store, postgres_url)


async def test_an_event_that_commits_late_is_not_missed(store: PostgresStore, postgres_url: str) -> None:
    with open_transaction(postgres_url) as late:
        late.execute(ADD, ("late", "k1"))
        await store.outbox.add([Event("early", "a.b", key="k2")])
        batch = await store.outbox.claim("relay", 10, 30.0)
        assert [event.event_id for event in batch.events] == ["early"]
        await store.outbox.published(batch.fence, ["early"])
    assert await claimed(store) == ["late"]


async def test_events_of_one_key_are_numbered_as_they_commit(store: PostgresStore, postgres_url: str) -> None:
    with open_transaction(postgres_url) as first:
        first.execute(ADD, ("first", "k"))
        second = asyncio.ensure_future(store.outbox.add([Event("second", "a.b", key="k")]))
        await somebody_waits(postgres_url)
        assert await claimed(store) == []
    assert await second == [True]
    assert await claimed(store) == ["first", "second"]


@pytest.mark.parametrize("commits", [True, False])
async def test_a_message_that_somebody_is_consuming_waits_for_his_commit(
    store: PostgresStore, postgres_url: str, commits: bool
) -> None:
    with open_transaction(postgres_url) as other:
        other.execute("INSERT INTO headrace.inbox (subscription, event_id) VALUES ('s', 'm1')")
        consumed = asyncio.ensure_future(store.inbox.consume("s", "m1", Consequence(events=(Event("e1", "a.b"),))))
        await somebody_waits(postgres_url)
        if not commits:
            other.rollback()
    assert (await consumed).new is not commits
    assert await claimed(store) == ([] if commits else ["e1"])


@pytest.mark.parametrize("sealed_first", [True, False])
async def test_the_seal_and_the_last_item_meet_on_the_account(
    store: PostgresStore, postgres_url: str, sealed_first: bool
) -> None:
    await store.ledger.open(Account("acme/p1"))
    with open_transaction(postgres_url) as other:
        if sealed_first:
            other.execute("SELECT headrace.ledger_seal('acme/p1', 1)")
            later = asyncio.ensure_future(store.ledger.settle("acme/p1", [Entry("i1")]))
        else:
            other.execute("SELECT headrace.ledger_settle('acme/p1', ARRAY['i1'], ARRAY[true])")
            later = asyncio.ensure_future(store.ledger.seal("acme/p1", 1))
        await somebody_waits(postgres_url)
    assert (await later).crossed
    assert await claimed(store) == ["acme/p1.finished"]


async def test_an_item_that_somebody_settles_at_the_same_time_counts_once(
    store: PostgresStore, postgres_url: str
) -> None:
    await store.ledger.open(Account("acme/p1"))
    with open_transaction(postgres_url) as other:
        other.execute("SELECT headrace.ledger_settle('acme/p1', ARRAY['i1'], ARRAY[true])")
        same = asyncio.ensure_future(store.ledger.settle("acme/p1", [Entry("i1"), Entry("i2")]))
        await somebody_waits(postgres_url)
    assert (await same).new == ("i2",)
    tally = await store.ledger.tally("acme/p1")
    assert tally is not None
    assert tally.done == 2


async def test_consumers_that_subscribe_at_once_open_one_subscription(store: PostgresStore, postgres_url: str) -> None:
    with open_transaction(postgres_url) as other:
        other.execute("SELECT headrace.subscribe('s', ARRAY['#'], ARRAY['^.*$'], 5)")
        later = asyncio.ensure_future(store.bus.subscribe(Subscription("s", ("#",))))
        await somebody_waits(postgres_url)
        other.execute(PUBLISH)
    await later
    assert len((await store.bus.receive("s", "test", 10, 30.0)).deliveries) == 1


async def test_a_frozen_relay_holds_up_nobody_else(store: PostgresStore, postgres_url: str) -> None:
    await store.outbox.add([Event(f"e{number}", "a.b") for number in range(4)])
    with open_transaction(postgres_url) as frozen:
        frozen.execute("SELECT 1 FROM headrace.event WHERE event_id IN ('e0', 'e1') FOR UPDATE")
        assert await claimed(store) == ["e2", "e3"]
        frozen.rollback()
    assert await claimed(store) == ["e0", "e1"]


async def test_a_consumer_frozen_inside_its_transaction_loses_it(store: PostgresStore, postgres_url: str) -> None:
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout), open_transaction(postgres_url) as frozen:
        frozen.execute(statements()["inbox_insert"].encode(), ("s", "m1"))
        consumed = await asyncio.wait_for(store.inbox.consume("s", "m1", Consequence()), 2 * PATIENCE_S)
        assert consumed.new
        frozen.execute("SELECT 1")


hasty = Flow("hasty")


@hasty.stage
async def order(article: str) -> None:
    """Somebody has to approve it, and soon."""


hasty.external("approval", after="order", deadline_s=0.1)


async def test_an_event_that_meets_a_redrive_is_not_lost(postgres_url: str) -> None:
    """It came too late for one generation, and commits when the next one has looked for it."""
    async with headrace.connect(postgres_url) as engine, engine.worker(hasty):
        job = await engine.submit(hasty, "bolt")
        assert (await engine.wait(job, timeout_s=PATIENCE_S)).state is JobState.FAILED
        with open_transaction(postgres_url) as late:
            late.execute(statements()["unit_close"], ("late", job, "approval"))
            redriven = asyncio.ensure_future(engine.redrive(DeadFilter(job=job)))
            waiting = asyncio.ensure_future(somebody_waits(postgres_url))
            await asyncio.wait((redriven, waiting), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        assert await redriven == 1
        assert (await engine.wait(job, timeout_s=PATIENCE_S)).state is JobState.FINISHED


async def test_an_event_that_nobody_waits_for_would_be_lost(postgres_url: str) -> None:
    change(postgres_url, "redrive", "WHERE kind = 2", "WHERE false")
    with pytest.raises(AssertionError, match="FAILED"):
        await test_an_event_that_meets_a_redrive_is_not_lost(postgres_url)
