"""The four services as processes, everything they stand on failing in turn: each project ends once, with exact counts.

`HEADRACE_TORTURE=20` repeats the round so often, restarts RabbitMQ itself in each, and makes projects larger.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import redis.asyncio
from smap_processes import Town, town
from waiting import eventually

from headrace.testing import HttpReceiver, ServiceProcess
from headrace.testing.rig.proxy import Proxy
from headrace.testing.rig.rabbitmq import RabbitServer
from headrace.testing.rig.redis import RedisServer
from headrace.testing.rig.s3 import S3Server
from headrace.testing.rig.smtp import SmtpServer
from headrace_smap.envelope import JOB_COMPLETED, derived_id
from headrace_smap.insight.messages import ALERT

TIMES = int(os.environ.get("HEADRACE_TORTURE", "1"))
PROJECTS = 3
POSTS_PER_TASK = 8 if TIMES == 1 else 60
AWAY_S = 2.0 if TIMES == 1 else 10.0
HEALED_S_MAX = 150.0
NAMES = ("project", "collector", "analytics", "insight")
RISKY = """
SELECT project_id, count(*) FROM post_analytics WHERE risk IN ('HIGH', 'CRITICAL') AND NOT is_spam GROUP BY project_id
"""
SECRET = "whsec_a2tra2tra2tra2tra2tra2tra2tra2tr"


Servers = tuple[RabbitServer, RedisServer, S3Server]


@pytest.fixture
def servers(rabbitmq_server: RabbitServer, redis_server: RedisServer, s3_server: S3Server) -> Servers:
    return rabbitmq_server, redis_server, s3_server


class World:
    """The services, the servers below them, and the proxies between."""

    def __init__(self, place: Town, proxies: dict[str, Proxy], servers: Servers) -> None:
        self.place, self.proxies = place, proxies
        self.rabbitmq, self.redis, self.s3 = servers
        self.services: dict[str, ServiceProcess] = {}
        self.deaths: Counter[str] = Counter()

    def start(self) -> None:
        self.services = dict(zip(NAMES, self.place.all(*NAMES), strict=True))

    def kill(self, name: str) -> None:
        """kill -9, and another one at once."""
        self.services[name].kill()
        self.deaths[name] += 1
        self.services[name] = self.place.ours(name)


@pytest.fixture
def reported(smtp_inbox: SmtpServer, hook: HttpReceiver) -> dict[str, str]:
    """People are told by mail and by webhook."""
    return {
        "SMAP_SMTP_URL": smtp_inbox.url,
        "SMAP_MAIL_FROM": "smap@example.com",
        "SMAP_MAIL_TO": "people@example.com",
        "SMAP_WEBHOOK_URL": hook.url,
        "SMAP_WEBHOOK_SECRET": SECRET,
        "SMAP_ALERT_INTERVAL_S": "1",
    }


@pytest.fixture
def world(
    reported: dict[str, str],
    real_environment: dict[str, str],
    fault_proxy: Callable[[str], Proxy],
    servers: Servers,
    tmp_path: Path,
) -> Iterator[World]:
    proxies = {name: fault_proxy(real_environment[name]) for name in ("SMAP_AMQP_URL", "SMAP_REDIS_URL")}
    environment = {
        **real_environment,
        **{name: proxy.url for name, proxy in proxies.items()},
        "SMAP_CRAWLERS": f"*=simulated:posts={POSTS_PER_TASK}&page=4&broken=0.05&overlap=0.1&latency=0.05",
        "SMAP_CRAWL_HOLD_S": "3",
        "SMAP_ANALYSTS": "0",
        "SMAP_PREFETCH": "20",
        **reported,
    }
    with town(environment, tmp_path) as place:
        yield World(place, proxies, servers)


async def create(world: World, project: str) -> None:
    """Ask until it is answered: the key makes a repeat the same project."""

    async def asked() -> bool:
        order = {"id": project, "keywords": ["VinFast", "VF3"], "date_range": ["2025-01-01", "2025-01-02"]}
        try:
            async with httpx.AsyncClient(trust_env=False, verify=False, timeout=20) as client:
                url = f"{world.services['project'].url}/projects"
                answer = await client.post(url, json=order, headers={"Idempotency-Key": f"key-of-{project}"})
        except httpx.HTTPError:
            return False
        return answer.is_success

    await eventually(asked, f"{project} is created", 120)


def round_of_faults(world: World, chance: random.Random) -> None:
    """Each fault once, in any order."""

    def s3_away() -> None:
        world.s3.kill()
        time.sleep(AWAY_S)
        world.s3.restart()

    def broker() -> None:
        if TIMES > 1:
            world.rabbitmq.kill()
            world.rabbitmq.restart()
        else:
            world.rabbitmq.close_connections()

    faults: list[Callable[[], object]] = [
        *(lambda name=name: world.kill(name) for name in NAMES),  # type: ignore[misc]
        lambda: world.redis.restart(lose_last_second=True),
        lambda: world.proxies["SMAP_REDIS_URL"].cut_reply_to(b"EVALSHA", times=3),
        lambda: world.proxies["SMAP_AMQP_URL"].cut_reply_to(b"data.collected"),
        lambda: world.proxies["SMAP_AMQP_URL"].cut_reply_to(b"analysis.finished"),
        s3_away,
        broker,
    ]
    chance.shuffle(faults)
    for fault in faults:
        fault()


async def test_every_project_ends_once_whatever_fails_meanwhile(
    world: World, real_environment: dict[str, str], smtp_inbox: SmtpServer, hook: HttpReceiver
) -> None:
    chance = random.Random(7)
    world.start()
    expected: list[str] = []
    for turn in range(TIMES):
        for number in range(PROJECTS):
            expected.append(f"proj_{turn}_{number}")
            await create(world, expected[-1])
        await asyncio.to_thread(round_of_faults, world, chance)
    for proxy in world.proxies.values():
        proxy.heal()
    await eventually(lambda: all_done(real_environment, expected), "every project is DONE", HEALED_S_MAX * TIMES)
    board = redis.asyncio.Redis.from_url(real_environment["SMAP_REDIS_URL"], decode_responses=True)
    for project in expected:
        shown = await board.hgetall(f"smap:proj:{project}")
        assert shown == as_counted(real_environment["SMAP_PG_DSN"], project)
    await board.aclose()
    dsn = real_environment["SMAP_PG_DSN"]
    await eventually(lambda: told_all(hook, smtp_inbox, expected, dsn), "everybody was told", HEALED_S_MAX)
    check_notices(hook, smtp_inbox, expected, world.deaths["insight"])
    assert world.deaths.keys() == set(NAMES)
    await check_reports(world, expected)


async def all_done(environment: dict[str, str], projects: list[str]) -> bool:
    board = redis.asyncio.Redis.from_url(environment["SMAP_REDIS_URL"], decode_responses=True)
    try:
        states = [await board.hget(f"smap:proj:{project}", "status") for project in projects]
    finally:
        await board.aclose()
    return set(states) == {"DONE"}


def as_counted(dsn: str, project: str) -> dict[str, str]:
    """What the hash must show, recounted from the rows of posts: each found one ended, each once."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute("SELECT count(*) FROM smap_found WHERE project_id = %s", [project]).fetchone()
        ended = connection.execute(
            "SELECT count(*), count(*) FILTER (WHERE state = 'failed') FROM smap_item WHERE project_id = %s", [project]
        ).fetchone()
        results = connection.execute("SELECT count(*) FROM post_analytics WHERE project_id = %s", [project]).fetchone()
    assert found
    assert ended
    assert results
    assert found[0] == ended[0] > 0
    assert results[0] == ended[0] - ended[1]
    return {"status": "DONE", "total": str(found[0]), "done": str(ended[0]), "errors": str(ended[1])}


def mails(inbox: SmtpServer) -> Counter[str]:
    return Counter(str(mail.message["Message-ID"]) for mail in inbox.messages())


def hooks(hook: HttpReceiver, kind: str = JOB_COMPLETED) -> dict[str, dict[str, Any]]:
    """What was told of this kind, by its id."""
    return {
        got.headers["webhook-id"]: got.document["data"] for got in list(hook.requests) if got.document["type"] == kind
    }


def alerted(hook: HttpReceiver) -> Counter[str]:
    """Of how many risky posts of each project people were told."""
    counts: Counter[str] = Counter()
    for data in hooks(hook, ALERT).values():
        counts[data["project_id"]] += sum(data["risk"].values())
    return counts


def risky(dsn: str) -> Counter[str]:
    """How many each project has."""
    with psycopg.connect(dsn) as connection:
        return Counter(dict(connection.execute(RISKY).fetchall()))


def end_mails(projects: list[str]) -> set[str]:
    return {f"<{derived_id('notice', project, 'mail')}@example.com>" for project in projects}


def told_all(hook: HttpReceiver, inbox: SmtpServer, projects: list[str], dsn: str) -> bool:
    ends = Counter(data["project_id"] for data in hooks(hook).values())
    mailed = len(hooks(hook)) + len(hooks(hook, ALERT))
    return ends.keys() == set(projects) and alerted(hook) == risky(dsn) and len(mails(inbox)) == mailed


def check_notices(hook: HttpReceiver, inbox: SmtpServer, projects: list[str], deaths: int) -> None:
    """Once per project and once per alert; a death in the middle may have cost a repeat under the same id."""
    assert sorted(data["project_id"] for data in hooks(hook).values()) == projects
    assert set(mails(inbox)) > end_mails(projects), "the alerts have ids of their own"
    sent = Counter(got.headers["webhook-id"] for got in hook.requests)
    assert max([*sent.values(), *mails(inbox).values()]) <= 1 + deaths
    assert sum(sent[told] - 1 for told in hooks(hook)) <= deaths
    assert sum(mails(inbox)[told] - 1 for told in end_mails(projects)) <= deaths


async def check_reports(world: World, projects: list[str]) -> None:
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=60) as client:
        for project in projects:
            answer = await client.get(f"{world.services['insight'].url}/projects/{project}/report.json")
            report: dict[str, Any] = json.loads(answer.raise_for_status().text)
            assert (report["status"], report["posts"]) == ("DONE", report["done"] - report["errors"])
