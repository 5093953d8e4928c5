"""The reconciler keeps its contract, in memory and on Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
import structlog
from prometheus_client import CollectorRegistry
from smap_accounts import MemoryLedger
from smap_reconciling_contract import Account, MemoryHash, P, ReconcilerContract
from smap_reconciling_losses import in_memory, lives_through_a_lost_moment, lives_through_a_lost_moment_while_looking
from smap_reconciling_strangers import StrangersContract
from waiting import eventually

import headrace
from headrace.errors import OperatorError
from headrace.testing.rig.redis import RedisServer
from headrace_smap.count.reconciliation.reconciler import LEASE, Reconciler
from headrace_smap.count.remembered import REMEMBERED_MAX
from headrace_smap.envelope import completed_id
from headrace_smap.ledger.redis_ledger import open_redis_ledger
from headrace_smap.values import CRAWLING, DONE, INITIALIZING, PROCESSING_WAIT, PostEnd, Standing


class RedisHash:
    """The specification's own client."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def hset(self, project: str, **fields: Any) -> None:
        await self._client.hset(f"smap:proj:{project}", mapping=fields)

    async def hincrby(self, project: str, field: str, by: int) -> int:
        return int(await self._client.hincrby(f"smap:proj:{project}", field, by))

    async def hget(self, project: str, field: str) -> Any:
        return await self._client.hget(f"smap:proj:{project}", field)

    async def flush(self) -> None:
        await self._client.flushdb()

    async def remove_items(self, project: str) -> None:
        await self._client.delete(f"smap:acct:{project}:items", f"smap:acct:{project}:failed")


class TestInMemory(ReconcilerContract, StrangersContract):
    @pytest.fixture
    def account(self) -> Account:
        return in_memory()


class TestOnRedis(ReconcilerContract, StrangersContract):
    @pytest.fixture
    async def account(self, redis_database: str) -> AsyncIterator[Account]:
        client = redis.asyncio.Redis.from_url(redis_database, decode_responses=True)
        async with open_redis_ledger(redis_database) as ledger, client:
            yield Account(ledger, RedisHash(client))


async def written_for_good(client: Any) -> None:
    """What is in Redis now is in a file that was synced, so that it is not lost with the last second."""

    async def is_written() -> bool:
        information = await client.info("persistence")
        return not (information["aof_rewrite_in_progress"] or information["aof_rewrite_scheduled"])

    await eventually(is_written, "no rewrite is under way")
    await client.bgrewriteaof()
    await eventually(is_written, "the rewrite has ended")


async def test_redis_that_lost_its_last_second_gets_it_back(redis_database: str, redis_server: RedisServer) -> None:
    """Totals and states of a foreign collector and increments of foreign workers, as we saw them, and our items."""
    client = redis.asyncio.Redis.from_url(redis_database, decode_responses=True)
    async with open_redis_ledger(redis_database) as ledger, client:
        account = Account(ledger, RedisHash(client))
        await account.foreign.set_project_total(2)
        await account.settle("a")
        await account.look_after()
        await written_for_good(client)
        await account.foreign.set_project_total(5)
        await account.settle("b", "c")
        await account.foreign.mark_item_done()
        await account.foreign.crawled_everything()
        await account.look_after()
        assert await account.shown() == (PROCESSING_WAIT, 5, 4, 0)
    redis_server.restart(lose_last_second=True)
    client = redis.asyncio.Redis.from_url(redis_database, decode_responses=True)
    async with open_redis_ledger(redis_database) as ledger, client:
        again = Account(ledger, RedisHash(client))
        assert await again.shown() == (CRAWLING, 2, 1, 0)
        again.database.connection = account.database.connection
        await again.look_after()
        assert await again.shown() == (PROCESSING_WAIT, 5, 4, 0)
        await again.settle("d", ok=False)
        await again.look_after(5)
        assert await again.shown() == (DONE, 5, 5, 1)
        assert again.told() == [completed_id(P)]


@pytest.mark.parametrize("total", [4, 3])
async def test_a_lost_moment_is_put_back_even_if_the_end_was_in_it(total: int) -> None:
    await lives_through_a_lost_moment(in_memory(), total)


async def test_a_foreign_total_that_was_never_seen_raises_the_alarm() -> None:
    """It was written and lost between two looks: nobody can know it, but everybody hears of it."""
    account = in_memory()
    await account.foreign.init_project_state()
    await account.look_after()
    picture = account.parts.ledger.picture()
    await account.foreign.set_project_total(9)
    account.parts.ledger.lose(picture)
    await account.settle("a", "b")
    await account.look_after(13, every_s=60)
    assert account.metric("complete_but_not_sealed") == 1
    assert account.told() == []


async def test_a_foreign_total_that_was_raised_in_the_lost_moment_raises_the_alarm() -> None:
    """Its end is crossed at the smaller total, and that more have ended is seen by everybody."""
    account = in_memory()
    await account.foreign.set_project_total(2)
    await account.look_after()
    picture = account.parts.ledger.picture()
    await account.foreign.set_project_total(3)
    account.parts.ledger.lose(picture)
    await account.look_after()
    await account.foreign.crawled_everything()
    await account.settle("a", "b")
    await account.look_after(5)
    assert account.metric("beyond_total") == 0
    with structlog.testing.capture_logs() as told:
        await account.settle("c")
        await account.look_after(6)
    assert account.metric("beyond_total") == 1
    assert [(line["event"], line["log_level"]) for line in told] == [("project.more_than_its_total", "error")]


async def test_posts_beyond_the_total_of_a_cancelled_project_are_no_alarm() -> None:
    account = in_memory()
    await account.foreign.set_project_total(2)
    await account.accountant.cancel(P)
    await account.settle("a", "b", "c")
    with structlog.testing.capture_logs() as told:
        await account.look_after(9)
    assert account.metric("beyond_total") == 0
    assert [line for line in told if line["log_level"] == "error"] == []


async def test_posts_of_a_project_whose_opening_was_lost_raise_the_alarm_until_somebody_opens_it() -> None:
    account = in_memory()
    picture = account.parts.ledger.picture()
    await account.foreign.init_project_state()
    account.parts.ledger.lose(picture)
    await account.settle("a")
    await account.look_after(9, every_s=60)
    assert account.metric("never_opened") == 0
    with structlog.testing.capture_logs() as told:
        await account.look_after(3, every_s=60)
    assert account.metric("never_opened") == 1
    assert [(line["event"], line["some"]) for line in told] == [("projects.never_opened", [P])]
    await account.foreign.init_project_state()
    await account.look_after(3)
    assert account.metric("never_opened") == 0
    assert (await account.shown())[2] == 1


async def test_a_silent_foreign_collector_is_taken_to_be_through() -> None:
    account = in_memory(seal_idle_s=30.0)
    await account.foreign.set_project_total(2)
    await account.settle("a")
    await account.look_after(29)
    await account.settle("b")
    await account.look_after(29)
    assert await account.shown() == (CRAWLING, 2, 2, 0)
    await account.look_after(3)
    assert (await account.shown(), account.told()) == ((DONE, 2, 2, 0), [completed_id(P)])


async def test_our_own_silent_collector_is_waited_for() -> None:
    account = in_memory(seal_idle_s=30.0)
    await account.accountant.open(P)
    await account.accountant.expect(P, 1)
    await account.settle("a")
    await account.look_after(20, every_s=60)
    assert (await account.shown())[0] == CRAWLING
    assert account.metric("complete_but_not_sealed") == 1


async def test_nothing_is_sealed_by_silence_unless_it_is_wanted() -> None:
    account = in_memory()
    await account.foreign.set_project_total(1)
    await account.settle("a")
    await account.look_after(10, every_s=3600)
    assert (await account.shown())[0] == CRAWLING


async def test_what_is_on_its_way_is_not_restored() -> None:
    """A settlement between database and ledger is no loss, and all items of a project are not read for it."""
    account = in_memory()
    await account.accountant.open(P)
    await account.look_after(5)
    before = account.metric("restored_total")
    for number in range(5):
        rows = [{"project": P, "item": f"{number}", "ok": True, "reason": None, "body": None}]
        await account.database.rows("truth_settle", rows=rows, now=account.clock())
        await account.look_after(every_s=0.5)
        await account.settle(f"{number}")
    await account.look_after(3)
    assert account.metric("restored_total") == before


async def test_a_key_that_is_something_else_does_not_keep_others_waiting(redis_database: str) -> None:
    client = redis.asyncio.Redis.from_url(redis_database, decode_responses=True)
    async with open_redis_ledger(redis_database) as ledger, client:
        account = Account(ledger, RedisHash(client))
        await client.hset("smap:proj:bad", mapping={"status": PROCESSING_WAIT, "total": 0})
        await client.set("smap:acct:bad:items", "not a set")
        await client.hset("smap:proj:worse", mapping={"status": PROCESSING_WAIT, "total": "many", "done": "some"})
        await client.set("smap:proj:no hash", "x")
        await client.hset("smap:proj:\x00", mapping={"status": PROCESSING_WAIT})
        await account.foreign.crawled_everything(0)
        await account.look_after(2)
        assert await account.shown() == (DONE, 0, 0, 0)


async def test_a_project_that_cannot_be_put_right_does_not_keep_others_waiting() -> None:
    ledger = Stubborn()
    account = Account(ledger, MemoryHash(ledger))
    for project in ("bad", P):
        await account.accountant.open(project)
    ledger.flush()
    await account.look_after()
    assert await ledger.projects() == [P]


class Stubborn(MemoryLedger):
    async def restore(self, project: str, known: Standing, ends: Sequence[PostEnd]) -> Standing:
        if project == "bad":
            raise OperatorError("no")
        return await super().restore(project, known, ends)


async def test_a_restart_in_the_middle_of_a_look_is_nobodys_deed() -> None:
    await lives_through_a_lost_moment_while_looking(Reconciler)


async def test_a_reconciler_runs_until_it_is_stopped(tmp_path: Path) -> None:
    async with headrace.connect(f"sqlite:///{tmp_path / 'headrace.db'}") as engine:
        account, stop = in_memory(reconcile_s=0.01), asyncio.Event()
        reconciler = Reconciler(
            replace(account.opened, engine=engine, registry=CollectorRegistry()), account.accountant
        )
        running = asyncio.create_task(reconciler.run(stop))
        await account.foreign.crawled_everything(0)
        await eventually(lambda: account.told(), "the line is crossed and told")
        stop.set()
        await running
        lease = await engine.leases.look(LEASE)
        assert lease is not None
        assert lease.free


async def test_more_projects_than_anybody_remembers_are_looked_after() -> None:
    """What takes two looks to be found is found however many others there are, and what is gone is forgotten."""
    account = in_memory()
    names = [f"p{number}" for number in range(REMEMBERED_MAX + 50)]
    rows = [(name, account.clock().isoformat()) for name in names]
    await account.foreign.init_project_state()
    for name, at in rows:
        account.parts.ledger.hashes[name] = {"status": CRAWLING, "total": 9, "done": 0, "errors": 0}
        account.database.connection.execute(
            "INSERT INTO smap_project (project_id, status, rank, created_at, moved_at) VALUES (?, ?, 1, ?, ?)",
            (name, CRAWLING, at, at),
        )
    ends = [{"project": P, "item": "a", "ok": True}]
    await account.database.rows("truth_settle", rows=ends, now=account.clock())
    await account.look_after(3, every_s=2)
    assert await account.shown() == (INITIALIZING, 0, 1, 0)
    account.parts.ledger.hashes.clear()
    account.database.empty()
    await account.look_after()
    assert account.reconciler._memories == {}
