"""The oldest PostgreSQL that is supported takes a whole project, from its order to its report and its deletion."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import cast

import httpx
import pytest
from waiting import eventually

from headrace.services import serving
from headrace.testing.fixtures import SharedServers
from headrace.testing.rig.postgres import PostgresServer
from headrace_smap.analytics.service import rerun
from headrace_smap.count.keeper import keeping
from headrace_smap.frame import NAME, NAMES, service_of
from headrace_smap.insight.aggregates import Aggregator
from headrace_smap.insight.report.content import gather
from headrace_smap.parts import SmapParts, open_parts
from headrace_smap.settings import SmapSettings

ORDER = {"id": "p", "keywords": ["VinFast"], "date_range": ["2025-01-01", "2025-01-02"]}


@pytest.fixture
def on_15(shared_servers: SharedServers, embedded: SmapSettings) -> Iterator[SmapSettings]:
    server = cast(PostgresServer, shared_servers.start("smap_postgres15", "postgres15"))
    with server.database() as url:
        crawlers = {"SMAP_CRAWLERS": "*=simulated:posts=5&broken=0.2", "SMAP_ANALYSTS": "0"}
        yield replace(embedded, pg_dsn=url, http_port=0, environment={**embedded.environment, **crawlers})


@asynccontextmanager
async def all_four(settings: SmapSettings) -> AsyncIterator[tuple[SmapParts, str]]:
    """The services in this process, and where the project service is."""
    stop = asyncio.Event()
    async with AsyncExitStack() as stack:
        parts = await stack.enter_async_context(open_parts(settings))
        await stack.enter_async_context(keeping(parts, stop))
        served = [serving(service_of(name, parts), parts.settings, stop, NAME) for name in NAMES]
        urls = [(await stack.enter_async_context(one)).url for one in served]
        yield parts, urls[0]


async def test_postgres_15_takes_it_all(on_15: SmapSettings) -> None:
    async with all_four(on_15) as (parts, url), httpx.AsyncClient(trust_env=False) as client:
        assert (await client.post(f"{url}/projects", json=ORDER)).is_success

        async def announced() -> bool:
            rows = await parts.database.rows("notice_counts", project="p")
            return bool(rows and rows[0][3])

        await eventually(announced, "the project is finished")
        report = await gather(parts.database, "p")
        assert report is not None
        assert (report.total, report.posts) == (30, 30 - report.errors)
        assert (await client.post(f"{url}/projects/p/retry")).json()["retried"] == report.errors > 0
        for form in ("csv", "parquet"):
            assert (await client.get(f"{url}/projects/p/export", params={"format": form})).is_success
        assert (await client.post(f"{url}/projects/p/recrawl", json={"every_hours": 6})).is_success
        assert (await rerun(parts, "p")).kept == 0
        await Aggregator(parts.database).rebuild("p")
        assert (await client.delete(f"{url}/projects/p")).status_code == 204
        assert (await client.get(f"{url}/projects/p")).status_code == 404

        async def swept() -> bool:
            return bool((await parts.database.rows("deletion_read", project="p"))[0][1])

        await eventually(swept, "the running service swept it")
