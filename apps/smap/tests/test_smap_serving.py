"""The frame of the services: what it waits for, and what it refuses at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import httpx
import pytest
import redis.asyncio

from headrace.errors import HeadraceError, OperatorError
from headrace.ports import Unknown, Unreachable, UnsafeStore
from headrace_smap.count.accountant import Accountant
from headrace_smap.insight.service import InsightService
from headrace_smap.serving import Stopped, patiently, serving_one
from headrace_smap.settings import Settings
from headrace_smap.world import open_world


@pytest.mark.parametrize("kind", [Unreachable, Unknown])
async def test_a_server_that_is_not_up_yet_is_waited_for(kind: type[HeadraceError]) -> None:
    calls: list[int] = []

    async def work() -> str:
        calls.append(1)
        if len(calls) < 2:
            raise kind("not yet")
        return "up"

    assert await patiently(work, 60, asyncio.Event()) == "up"
    with pytest.raises(kind):
        calls.clear()
        await patiently(work, 0, asyncio.Event())


@pytest.mark.parametrize("kind", [OperatorError, UnsafeStore])
async def test_a_server_that_is_set_up_wrongly_is_refused_at_once(kind: type[HeadraceError]) -> None:
    async def work() -> None:
        raise kind("it evicts")

    with pytest.raises(kind):
        await asyncio.wait_for(patiently(work, 60, asyncio.Event()), 5)


async def test_a_stop_ends_the_waiting() -> None:
    stop = asyncio.Event()

    async def work() -> None:
        stop.set()
        raise Unreachable("for ever")

    with pytest.raises(Stopped):
        await patiently(work, 60, stop)


async def test_people_are_told_what_the_hash_shows_when_somebody_else_crossed_the_line(
    embedded: Settings, redis_database: str
) -> None:
    board = redis.asyncio.Redis.from_url(redis_database)
    await board.hset("smap:proj:p", mapping={"status": "DONE", "total": 10, "done": 10, "errors": 2})
    await board.aclose()
    async with open_world(replace(embedded, redis_url=redis_database)) as world:
        notice = await InsightService(world).notice("p", "n")
        nobody = await InsightService(world).notice("nobody", "n")
        await world.database.rows("truth_open", project="gone", now=datetime.now(UTC))
        assert await InsightService(world).notice("gone", "n") is not None
        await Accountant(world).forget("gone")
        assert await InsightService(world).notice("gone", "n") is None
    assert notice is not None
    assert notice.counts == {"total": 10, "done": 10, "errors": 2}
    assert nobody is not None
    assert nobody.counts == {}


async def test_insight_answers_for_progress_too(embedded: Settings) -> None:
    async with open_world(replace(embedded, http_port=0)) as world:
        await Accountant(world).open("p")
        async with (
            serving_one("insight", world, asyncio.Event()) as ready,
            httpx.AsyncClient(trust_env=False) as client,
        ):
            known = await client.get(f"{ready.url}/projects/p/progress")
            unknown = await client.get(f"{ready.url}/projects/nobody/progress")
            page = await client.get(f"{ready.url}/projects/p/report")
            missing = await client.get(f"{ready.url}/projects/nobody/report.json")
            notices = await client.get(f"{ready.url}/projects/p/notices")
            no_notices = await client.get(f"{ready.url}/projects/nobody/notices")
    assert (known.status_code, known.json()["status"]) == (200, "INITIALIZING")
    assert (unknown.status_code, unknown.json()) == (404, {"status": "NOT_FOUND", "percent": 0})
    assert (page.status_code, "No results yet." in page.text) == (200, True)
    assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")
    assert (notices.status_code, notices.json(), no_notices.status_code) == (200, {"notices": []}, 404)
