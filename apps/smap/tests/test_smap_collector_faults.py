"""Servers that go away while a project is crawled are waited for: no task fails, and every count is exact."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import pytest
from collector_running import blobs_count, collecting, order, report, sealed, told
from waiting import eventually

from headrace.testing.rig.postgres import PostgresServer
from headrace.testing.rig.rabbitmq import RabbitServer
from headrace.testing.rig.redis import RedisServer
from headrace.testing.rig.s3 import S3Server
from headrace.testing.rig.server import Server
from headrace_smap.parts import SmapParts
from headrace_smap.values import SEALED

TORTURE = "HEADRACE_TORTURE" in os.environ
KEYWORDS = ["a", "b", "c", "d"]
POSTS = 60
WISHES = {"SMAP_CRAWLERS": f"*=simulated:posts={POSTS}&page=3&latency=0.05", "SMAP_CRAWL_HOLD_S": "5"}


@pytest.fixture
def faults(
    redis_server: RedisServer, s3_server: S3Server, postgres_server: PostgresServer, rabbitmq_server: RabbitServer
) -> list[Callable[[], object]]:
    """What is done to the servers, one after the other. A broker takes long to come back."""
    killed: list[Server] = [redis_server, s3_server, postgres_server, *([rabbitmq_server] if TORTURE else [])]
    return [lambda server=server: kill_and_start(server) for server in killed]


def kill_and_start(server: Server) -> None:
    server.kill()
    server.start()


async def test_servers_that_are_killed_meanwhile_cost_no_post(
    real_environment: dict[str, str], faults: list[Callable[[], object]]
) -> None:
    async with collecting({**real_environment, **WISHES}) as parts:
        await order(parts, "faulty", keywords=KEYWORDS, targets=[{"platform": "tiktok"}])
        whole = POSTS * len(KEYWORDS)
        for number, fault in enumerate(faults, start=1):
            await reached(parts, number * whole // (len(faults) + 2))
            await asyncio.to_thread(fault)
        await sealed(parts, "faulty")
        assert {state for _, state, _, _ in await report(parts, "faulty")} == {"done"}
        assert await blobs_count(parts, "faulty") == len(await told(parts)) == whole
        assert (await sealed(parts, "faulty")).total == whole


async def reached(parts: SmapParts, posts: int) -> None:
    async def look() -> bool:
        rows = await parts.database.rows("crawl_found", project="faulty")
        standing = await parts.ledger.tally("faulty")
        assert standing is None or standing.status not in SEALED, "it was over before anything went wrong"
        return bool(rows) and rows[0][0] >= posts

    await eventually(look, f"{posts} posts are found", 120)
