"""Each of our services works with those of somebody else who read the specification and nothing of ours."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aio_pika
import httpx
import pytest
import redis.asyncio
from smap_processes import Town, town
from waiting import eventually

POSTS = 30
PAYLOAD = {
    "project_id": "proj_abc",
    "keywords": ["VinFast", "VF3"],
    "targets": [{"platform": "tiktok", "url": "..."}],
    "date_range": ["2025-01-01", "2025-01-02"],
}
ORDER = {**PAYLOAD, "targets": []}


@pytest.fixture
def place(real_environment: dict[str, str], tmp_path: Path) -> Iterator[Town]:
    quick = {
        **real_environment,
        "SMAP_CRAWLERS": "*=simulated:posts=5&page=5",
        "FOREIGN_POSTS": str(POSTS),
        "SMAP_ANALYSTS": "0",
    }
    with town(quick, tmp_path) as made:
        yield made


@pytest.fixture
async def board(real_environment: dict[str, str]) -> AsyncIterator[redis.asyncio.Redis]:
    client = redis.asyncio.Redis.from_url(real_environment["SMAP_REDIS_URL"], decode_responses=True)
    yield client
    await client.aclose()


@asynccontextmanager
async def hearing(environment: dict[str, str]) -> AsyncIterator[list[dict[str, Any]]]:
    """Everything that is told about the end of projects."""
    connection = await aio_pika.connect(environment["SMAP_AMQP_URL"])
    channel = await connection.channel()
    exchange = await channel.declare_exchange("smap.events", aio_pika.ExchangeType.TOPIC, durable=True)
    queue = await channel.declare_queue("witness", durable=True)
    await queue.bind(exchange, "job.completed")
    heard: list[dict[str, Any]] = []

    async def note(message: aio_pika.abc.AbstractIncomingMessage) -> None:
        heard.append(json.loads(message.body))
        await message.ack()

    await queue.consume(note)
    try:
        yield heard
    finally:
        await connection.close()


async def state(board: redis.asyncio.Redis) -> dict[str, str]:
    return dict(await board.hgetall("smap:proj:proj_abc"))


async def done(board: redis.asyncio.Redis) -> bool:
    return (await state(board)).get("status") == "DONE"


async def finished(board: redis.asyncio.Redis, heard: list[dict[str, Any]]) -> dict[str, str]:
    """The hash when the end was told."""
    await eventually(lambda: done(board), lambda: "the project is DONE", 120)
    await eventually(lambda: heard, "its end is told")
    return await state(board)


async def create(url: str) -> None:
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        answer = await client.post(f"{url}/projects", json=ORDER)
    assert answer.is_success, answer.text


async def got(url: str) -> dict[str, Any]:
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        return dict((await client.get(url)).json())


async def test_a_foreign_collector_feeds_our_analytics(
    place: Town, real_environment: dict[str, str], board: redis.asyncio.Redis
) -> None:
    async with hearing(real_environment) as heard:
        place.all("analytics", "insight")
        place.foreign("collector")
        place.foreign("project").say(json.dumps(PAYLOAD))
        hash_now = await finished(board, heard)
    assert hash_now == {"status": "DONE", "total": str(POSTS), "done": str(POSTS), "errors": "0"}
    assert {told["event_id"] for told in heard} == {heard[0]["event_id"]}
    assert heard[0]["project_id"] == "proj_abc"
    assert heard[0]["payload"] == {"project_id": "proj_abc", "total": POSTS, "done": POSTS, "errors": 0}


@pytest.mark.parametrize("careful", ["yes", "no"])
async def test_foreign_analytics_work_for_our_project_service_and_collector(
    place: Town, real_environment: dict[str, str], board: redis.asyncio.Redis, careful: str
) -> None:
    async with hearing(real_environment) as heard:
        place.foreign("analytics", FOREIGN_CAREFUL=careful)
        insight = place.foreign("insight")
        project, _ = place.all("project", "collector")
        await create(project.url)
        # Those who mind §4.1 may count the last post before the seal: then the seal itself crosses the line. Those who
        # do not are kept from it by the total, which is one ahead until then.
        hash_now = await finished(board, heard)
        await eventually(lambda: json.dumps({"ready": "proj_abc"}) in insight.lines, "foreign insight hears of it")
        progress = await got(f"{project.url}/projects/proj_abc/progress")
    assert (hash_now["done"], hash_now["errors"]) == (hash_now["total"], "0")
    assert int(hash_now["total"]) > 0
    assert progress["percent"] == 100.0
    assert [told["project_id"] for told in heard] == ["proj_abc"]


async def test_our_analytics_share_a_queue_with_foreign_ones(
    place: Town, real_environment: dict[str, str], board: redis.asyncio.Redis
) -> None:
    async with hearing(real_environment) as heard:
        place.foreign("analytics", FOREIGN_QUEUE="shared")
        project, *_ = place.all("project", "collector", "analytics", SMAP_QUEUE="shared", SMAP_PREFETCH="5")
        await create(project.url)
        hash_now = await finished(board, heard)
    assert hash_now["done"] == hash_now["total"]
    assert {told["project_id"] for told in heard} == {"proj_abc"}


async def test_a_foreign_project_service_is_served_by_all_of_ours(
    place: Town, real_environment: dict[str, str], board: redis.asyncio.Redis
) -> None:
    async with hearing(real_environment) as heard:
        _, _, insight = place.all("collector", "analytics", "insight")
        foreign = place.foreign("project")
        foreign.say(json.dumps({**PAYLOAD, "targets": []}))
        hash_now = await finished(board, heard)
        # The same event again is the same project, and evt_001 is nobody's identity.
        foreign.say(json.dumps({**PAYLOAD, "project_id": "proj_other", "targets": []}))
        await eventually(lambda: len(heard) == 2, "the other project ends as well", 120)
        report = await got(f"{insight.url}/projects/proj_abc/report.json")
    assert hash_now["done"] == hash_now["total"] == str(report["posts"])
    assert {told["project_id"] for told in heard} == {"proj_abc", "proj_other"}


async def test_a_collector_that_never_seals_is_closed_by_hand(
    place: Town, real_environment: dict[str, str], board: redis.asyncio.Redis, tmp_path: Path
) -> None:
    async with hearing(real_environment) as heard:
        place.all("analytics")
        place.foreign("collector", FOREIGN_SEAL="no")
        place.foreign("project").say(json.dumps(PAYLOAD))

        async def counted() -> bool:
            return (await state(board)).get("done") == str(POSTS)

        await eventually(counted, "all posts are counted", 120)
        assert (await state(board))["status"] == "CRAWLING"
        assert heard == []
        place.run("seal", "proj_abc")
        hash_now = await finished(board, heard)
    assert hash_now == {"status": "DONE", "total": str(POSTS), "done": str(POSTS), "errors": "0"}
