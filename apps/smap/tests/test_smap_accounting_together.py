"""Ours and strangers at once on real servers, with time that runs faster: never back, never doubled, one end."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
import redis.asyncio
from smap_accounts import START
from smap_reconciling_contract import Account, P
from test_smap_reconciling import RedisHash
from waiting import eventually

from headrace.errors import Conflict, HeadraceError
from headrace.ports import Subscription
from headrace.services import rest
from headrace_smap.count.accountant import Accountant, ItemEnd
from headrace_smap.count.reconciliation.reconciler import Reconciler
from headrace_smap.envelope import JOB_COMPLETED, completed_id
from headrace_smap.frame import FRAME
from headrace_smap.ledger.redis_ledger import open_redis_ledger
from headrace_smap.parts import SmapParts, open_parts
from headrace_smap.values import CRAWLING, DONE, PROCESSING_WAIT

FASTER = 10
ENDED_S_MAX = 60.0


@pytest.fixture
async def client(redis_database: str) -> AsyncIterator[Any]:
    async with redis.asyncio.Redis.from_url(redis_database, decode_responses=True) as client:
        yield client


@pytest.fixture
async def account(redis_database: str, client: Any) -> AsyncIterator[Account]:
    async with open_redis_ledger(redis_database) as ledger:
        yield Account(ledger, RedisHash(client))


async def test_a_key_of_another_kind_costs_nothing_once_it_is_removed(account: Account, client: Any) -> None:
    await account.accountant.open(P)
    await account.accountant.expect(P, 10)
    await account.settle("a", "b", "c")
    await account.look_after()
    await client.set(f"smap:acct:{P}:items", "somebody else's")
    for call in (lambda: account.settle("d", "e"), lambda: account.accountant.seal(P, 10)):
        with pytest.raises(Conflict, match="WRONGTYPE"):
            await call()
    await account.look_after(3)
    await client.delete(f"smap:acct:{P}:items")
    await account.look_after(4)
    assert await account.shown() == (PROCESSING_WAIT, 10, 5, 0)


async def test_ours_and_a_stranger_count_side_by_side(account: Account, client: Any) -> None:
    await account.accountant.open(P)
    await account.accountant.expect(P, 400)
    steps, busy = [0], True

    async def ours(first: int) -> None:
        for number in range(first, first + 100, 10):
            await account.settle(*(f"{number + each}" for each in range(10)))

    async def strangers() -> None:
        for _ in range(150):
            await client.hincrby(f"smap:proj:{P}", "done", 1)

    async def watch() -> None:
        while busy:
            await account.look_after(every_s=0.3)
            steps.append(int(await client.hget(f"smap:proj:{P}", "done")))

    watching = asyncio.create_task(watch())
    # The same hundred twice: each of them counts once.
    await asyncio.gather(ours(0), ours(50), ours(100), strangers())
    busy = False
    await watching
    await account.look_after(4)
    assert steps == sorted(steps)
    assert await account.shown() == (CRAWLING, 401, 350, 0)
    await client.flushdb()
    await account.look_after(4)
    assert await account.shown() == (CRAWLING, 401, 350, 0)
    await account.accountant.seal(P, 350)
    await account.look_after(6)
    assert (await account.shown(), account.told()) == ((DONE, 350, 350, 0), [completed_id(P)])


class Crowd:
    """Three accountants and three reconcilers that do not take turns."""

    def __init__(self, opened: list[SmapParts], seed: int) -> None:
        self.random, self._began = Random(seed), time.monotonic()
        self._accountants = [Accountant(parts, self._now) for parts in opened]
        pairs = zip(opened, self._accountants, strict=True)
        self._reconcilers = [Reconciler(parts, accountant, self._now) for parts, accountant in pairs]
        self._database = opened[0].database

    def _now(self) -> datetime:
        return START + timedelta(seconds=(time.monotonic() - self._began) * FASTER)

    async def reconcile(self, stop: asyncio.Event) -> None:
        async def look(reconciler: Reconciler) -> None:
            while not stop.is_set():
                await self._try(reconciler.tick)
                await rest(stop, self.random.random() * 0.05)

        await asyncio.gather(*(look(each) for each in self._reconcilers))

    async def live(self, project: str, posts: int) -> None:
        """A project from its beginning to its end; one in ten posts fails for good, one in ten at first."""
        await self._surely(lambda each: each.open(project))
        await self._surely(lambda each: each.expect(project, posts))
        settling = [self._settle(project, range(first, min(posts, first + 10))) for first in range(0, posts, 10)]
        await asyncio.gather(*settling, self._surely(lambda each: each.seal(project, posts)))
        again = [ItemEnd(project, f"{number}") for number in range(0, posts, 10)]
        await self._surely(lambda each: each.settle(again))

    async def _settle(self, project: str, numbers: range) -> None:
        ends = [ItemEnd(project, f"{number}", number % 5 != 0, body=b"{}") for number in numbers]
        for _ in range(self.random.choice([1, 2, 3])):
            await asyncio.sleep(self.random.random())
            self.random.shuffle(ends)
            await self._surely(lambda each: each.settle(ends))

    async def _surely(self, call: Callable[[Accountant], Awaitable[object]]) -> None:
        accountant = self.random.choice(self._accountants)
        await eventually(lambda: self._try(lambda: call(accountant)), "the call is answered", ENDED_S_MAX)

    async def _try(self, call: Callable[[], Awaitable[object]]) -> bool:
        try:
            await call()
        except HeadraceError:
            return False
        return True


async def test_a_crowd_that_loses_its_ledger_again_and_again_comes_to_one_end_each(
    tmp_path: Path, redis_database: str, postgres_database: str, client: Any
) -> None:
    settings = FRAME.load(
        {"SMAP_HOME": str(tmp_path / "smap"), "SMAP_REDIS_URL": redis_database, "SMAP_PG_DSN": postgres_database}
    )
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(open_parts(settings)) for _ in range(3)]
        await opened[0].bus.subscribe(Subscription("witness", (JOB_COMPLETED,)))
        crowd, stop = Crowd(opened, seed=1), asyncio.Event()
        plan = {f"p{number}": crowd.random.choice([0, 1, 7, 60]) for number in range(12)}
        reconciling = asyncio.create_task(crowd.reconcile(stop))
        living = asyncio.gather(*(crowd.live(project, posts) for project, posts in plan.items()))
        for _ in range(8):
            await asyncio.sleep(crowd.random.random() * 0.3)
            await client.flushdb()
        await living
        shown, told = await ended(opened[0], client, plan)
        stop.set()
        await reconciling
    for project, posts in plan.items():
        errors = len(range(0, posts, 5)) - len(range(0, posts, 10))
        assert shown[project] == {"status": DONE, "total": f"{posts}", "done": f"{posts}", "errors": f"{errors}"}
        assert told[project] == 1


async def ended(parts: SmapParts, client: Any, plan: dict[str, int]) -> tuple[dict[str, Any], Counter[str]]:
    """What is shown when every end was told and every late success is counted, and how often each end was told."""
    told: Counter[str] = Counter()
    shown: dict[str, Any] = {}

    async def all_told() -> bool:
        received = await parts.bus.receive("witness", "w", 100, 60)
        told.update(json.loads(each.event.body)["project_id"] for each in received.deliveries)
        await parts.bus.ack(received.deliveries)
        for project in plan:
            shown[project] = await client.hgetall(f"smap:proj:{project}")
        wanted = {project: len(range(0, posts, 5)) - len(range(0, posts, 10)) for project, posts in plan.items()}
        found = {project: int(each.get("errors", -1)) for project, each in shown.items()}
        return not received.deliveries and set(told) == set(plan) and found == wanted

    await eventually(all_told, lambda: f"every end was told: {told}, {shown}", ENDED_S_MAX)
    return shown, told
