"""What insight answers, and tells people."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import httpx
import pytest
import redis.asyncio

from headrace.services import serving
from headrace_smap.count.accountant import Accountant
from headrace_smap.frame import NAME, service_of
from headrace_smap.insight.notices import DueNotice, NoticeRefused
from headrace_smap.insight.service import InsightService
from headrace_smap.parts import open_parts
from headrace_smap.settings import SmapSettings


async def test_people_are_told_what_the_hash_shows_when_somebody_else_crossed_the_line(
    embedded: SmapSettings, redis_database: str
) -> None:
    board = redis.asyncio.Redis.from_url(redis_database)
    await board.hset("smap:proj:p", mapping={"status": "DONE", "total": 10, "done": 10, "errors": 2})
    await board.aclose()
    async with open_parts(replace(embedded, redis_url=redis_database)) as parts:
        insight = InsightService(parts)
        message, nobody = await insight.message(end_of("p")), await insight.message(end_of("nobody"))
        await parts.database.rows("truth_open", project="gone", now=datetime.now(UTC))
        assert await insight.message(end_of("gone")) is not None
        await Accountant(parts).forget("gone")
        with pytest.raises(NoticeRefused, match="cancelled or deleted"):
            await insight.message(end_of("gone"))
    assert message is not None
    assert message.data == {"project_id": "p", "total": 10, "done": 10, "errors": 2, "report_url": ""}
    assert nobody is not None
    assert nobody.data == {"project_id": "nobody", "report_url": ""}


def end_of(project: str) -> DueNotice:
    return DueNotice("n", project, "webhook", "", 1, None, None)


async def test_insight_answers_for_progress_too(embedded: SmapSettings) -> None:
    async with open_parts(replace(embedded, http_port=0)) as parts:
        await Accountant(parts).open("p")
        async with (
            serving(service_of("insight", parts), parts.settings, asyncio.Event(), NAME) as ready,
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
