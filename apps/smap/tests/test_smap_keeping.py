"""The account is kept by whichever services are ours: also when those that count and those that finish are not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import redis.asyncio
from smap_processes import town
from waiting import eventually

from headrace.errors import Unreachable
from headrace.ports import Subscription
from headrace_smap.count.accountant import Accountant
from headrace_smap.count.keeper import keeping
from headrace_smap.count.truth import Truth, look
from headrace_smap.envelope import JOB_COMPLETED, completed_id
from headrace_smap.frame import FRAME
from headrace_smap.parts import SmapParts, open_parts
from headrace_smap.settings import SmapSettings

P = "proj_abc"
HASH = f"smap:proj:{P}"
TOLD_S_MAX = 60.0


@pytest.fixture
def environment(tmp_path: Path, redis_database: str) -> dict[str, str]:
    """A hash that everybody may write to, and a directory for the rest."""
    return {"PATH": os.environ["PATH"], "SMAP_HOME": str(tmp_path / "smap"), "SMAP_REDIS_URL": redis_database}


@pytest.fixture
def settings(environment: dict[str, str]) -> SmapSettings:
    return FRAME.load(environment)


@asynccontextmanager
async def witnessed(settings: SmapSettings) -> AsyncIterator[tuple[SmapParts, redis.asyncio.Redis]]:
    """A world where somebody hears of every end, and the hash as a foreign service has it."""
    client = redis.asyncio.Redis.from_url(settings.redis_url, decode_responses=True)
    async with open_parts(settings) as parts:
        await parts.bus.subscribe(Subscription("witness", (JOB_COMPLETED,)))
        yield parts, client
    await client.aclose()


async def told(parts: SmapParts) -> list[str]:
    return [each.event.event_id for each in (await parts.bus.receive("witness", "w", 100, 60)).deliveries]


async def truth_of(parts: SmapParts) -> Truth:
    return (await look(parts.database, [P]))[0]


async def all_counted_by_others(parts: SmapParts, client: redis.asyncio.Redis) -> None:
    """Foreign workers who mind §4.1 count the last post in CRAWLING and say nothing; then our collector seals."""
    collector = Accountant(parts)
    await collector.open(P)
    await collector.expect(P, 3)
    await client.hincrby(HASH, "done", 3)
    await collector.seal(P, 3)


async def test_an_end_that_the_seal_of_our_collector_reached_is_told_without_analytics_of_ours(
    environment: dict[str, str], settings: SmapSettings, tmp_path: Path
) -> None:
    async with witnessed(settings) as (parts, client):
        await all_counted_by_others(parts, client)
        assert await told(parts) == []
        with town(environment, tmp_path) as place:
            place.ours("insight")
            heard: list[str] = []

            async def hears() -> bool:
                heard.extend(await told(parts))
                return bool(heard)

            await eventually(hears, "the end is told", TOLD_S_MAX)
        assert heard == [completed_id(P)]


async def test_an_end_that_foreign_analytics_reached_and_told_is_kept(settings: SmapSettings) -> None:
    async with witnessed(settings) as (parts, client), keeping(parts, asyncio.Event()):
        collector = Accountant(parts)
        await collector.open(P)
        await collector.expect(P, 2)
        await collector.seal(P, 2)
        await client.hset(HASH, mapping={"done": 2, "errors": 1, "status": "DONE"})

        async def finished() -> bool:
            return (await truth_of(parts)).announced_at is not None

        await eventually(finished, "there is a finish row", TOLD_S_MAX)
        await client.flushdb()
        progress = await collector.progress(P)
        assert progress == {"status": "DONE", "total": 2, "processed": 2, "errors": 1, "percent": 100.0}


async def test_without_keeping_nobody_tells(settings: SmapSettings) -> None:
    """The twin: a process of ours that only has its service."""
    async with witnessed(settings) as (parts, client):
        await all_counted_by_others(parts, client)
        truth = await truth_of(parts)
        assert (truth.finished_at is not None, truth.announced_at, await told(parts)) == (True, None, [])


class Cut:
    """A bus whose server goes away while it is being prepared."""

    async def subscribe(self, subscription: Subscription) -> None:
        raise Unreachable("no bus")


async def test_it_is_stopped_with_its_block_and_begins_again_after_a_failure(settings: SmapSettings) -> None:
    async with witnessed(settings) as (parts, _):
        with pytest.raises(Unreachable):
            async with keeping(replace(parts, bus=Cut()), asyncio.Event()):  # type: ignore[arg-type]
                raise AssertionError("it cannot have begun")
        stop = asyncio.Event()
        async with asyncio.timeout(TOLD_S_MAX), keeping(parts, stop):
            pass
        assert stop.is_set()
