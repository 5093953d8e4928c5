"""Many jobs at once, several managers at once, managers that are killed, and a broker that goes away."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx
import psycopg
from matching_world import EXTERNAL, MatchingWorld, event, opened_world, uuid7
from waiting import eventually

from headrace.consuming import Consumer, Delivery, Subscription
from headrace.services import Program
from headrace.testing import ServiceProcess
from headrace.testing.rig.rabbitmq import RabbitServer
from headrace_matching.events.names import CLOSED_BY, COMPLETED, PHASE_ENTERED, READY, Phase
from headrace_matching.parts import open_bus
from headrace_matching.settings import MatchingSettings

ALL = [phase.value for phase in Phase]
ROUNDS = int(os.environ.get("HEADRACE_TORTURE", "1"))
KILLS = 2 * ROUNDS


def messages_of(jobs: Sequence[str], chance: random.Random, times: int = 2) -> list[tuple[str, dict[str, str]]]:
    """All events of these jobs, each several times, in any order."""
    told = [(name, {"job_id": job, "event_id": uuid7()}) for job in jobs for name in COMPLETED]
    told += [(name, {"job_id": job, "asset_id": "a", "event_id": uuid7()}) for job in jobs for name in READY]
    told *= times
    chance.shuffle(told)
    return told


async def all_ended(world: MatchingWorld, jobs: Sequence[str]) -> None:
    async def ended() -> bool:
        return len((await world.client.get("/jobs?state=completed&limit=200")).json()["jobs"]) == len(jobs)

    await eventually(ended, f"{len(jobs)} jobs completed", timeout_s=300)


async def check_entered(world: MatchingWorld, jobs: Sequence[str]) -> None:
    """Each phase of each job was entered once, and announced under one id."""
    for job in jobs:
        rows = await world.parts.engine.rows("phases_of", job=job)
        assert [phase for phase, *_ in rows] == ALL, job


async def test_two_managers_and_many_jobs(settings: MatchingSettings) -> None:
    count = 200 if settings.pg_dsn else 20
    async with opened_world(settings) as world, opened_world(settings) as other:
        opened = await asyncio.gather(*(each.open() for each in (world, other) for _ in range(count // 2)))
        told = messages_of(opened, random.Random(1))
        half = len(told) // 2
        await asyncio.gather(world.publish(*told[:half]), other.publish(*told[half:]))
        await all_ended(world, opened)
        await check_entered(world, opened)
        both = world.announced + other.announced

        def heard() -> bool:
            return Counter(each["phase"] for each in both) == dict.fromkeys(ALL, count)

        def refresh() -> bool:
            both[:] = world.announced + other.announced
            return heard()

        await eventually(refresh, lambda: f"all announcements: {Counter(each['phase'] for each in both)}")
        assert len({each["event_id"] for each in both}) == 5 * count
        view = await world.view(opened[0])
        assert view["tallies"]["image"]["embedding_ready"] == 1
        assert {each["duplicates"] for each in view["events"]} == {1}


async def test_a_broker_that_restarts_costs_time_and_nothing_else(
    servers: MatchingSettings, rabbitmq_server: RabbitServer
) -> None:
    async with opened_world(servers) as world:
        jobs = [await world.open() for _ in range(4)]
        for phase, names in CLOSED_BY.items():
            await world.publish(*((name, {"job_id": job, "event_id": uuid7()}) for job in jobs for name in names))
            if phase in list(Phase)[:ROUNDS]:
                await asyncio.to_thread(rabbitmq_server.restart)
            for job in jobs:
                await world.reaches(job, ALL[ALL.index(phase) + 1])
        await check_entered(world, jobs)

        def heard() -> bool:
            return all(set(world.entered(job)) == set(ALL) for job in jobs)

        await eventually(heard, "all announcements")
        assert len({each["event_id"] for each in world.announced}) == 5 * len(jobs)


def manager(environment: dict[str, str], log: Path) -> ServiceProcess:
    command = (sys.executable, "-m", "headrace", "matching", "api", "--port", "0")
    return ServiceProcess(Program("manager", command, environment), log)


async def test_a_manager_that_is_killed_again_and_again_loses_nothing(
    servers: MatchingSettings, tmp_path: Path
) -> None:
    environment = {**os.environ, "MATCHING_HOME": str(servers.home), "MATCHING_HTTP_PORT": "0"}
    environment |= {"MATCHING_PG_DSN": servers.pg_dsn, "MATCHING_AMQP_URL": servers.amqp_url}
    chance, announced = random.Random(3), list[dict[str, str]]()
    log, stop = tmp_path / "manager.log", asyncio.Event()

    async def listen(deliveries: Sequence[Delivery]) -> None:
        announced.extend(json.loads(delivery.event.body) for delivery in deliveries)

    async with open_bus(servers) as bus:
        listener = Consumer(bus, Subscription("test.listener", (PHASE_ENTERED,)), listen)
        await listener.prepare()
        listening = asyncio.create_task(listener.run(stop))
        living = manager(environment, log)
        url = await asyncio.to_thread(lambda: living.url)
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            jobs = [(await client.post("/jobs", json=EXTERNAL)).json()["job_id"] for _ in range(10)]
        told = messages_of(jobs, chance, times=3)
        step = len(told) // (KILLS + 1)
        for number in range(KILLS):
            await bus.publish([event(name, json.dumps(body).encode()) for name, body in told[number * step :][:step]])
            living.kill()
            living = manager(environment, log)
            await asyncio.to_thread(lambda: living.url)  # noqa: B023
        rest = told[KILLS * step :]
        await bus.publish([event(name, json.dumps(body).encode()) for name, body in rest])
        with psycopg.connect(servers.pg_dsn, autocommit=True) as connection:

            def ended() -> bool:
                rows = connection.execute("SELECT state, count(*) FROM matching_job GROUP BY state").fetchall()
                return rows == [("completed", len(jobs))]

            await eventually(ended, lambda: log.read_text()[-2_000:], timeout_s=240)
            rows = connection.execute(
                "SELECT job_id, count(*), count(DISTINCT phase) FROM matching_phase GROUP BY job_id"
            )
            assert [row[1:] for row in rows] == [(5, 5)] * len(jobs)
            tallies = connection.execute("SELECT DISTINCT count FROM matching_tally").fetchall()
            assert tallies == [(1,)]
        await eventually(lambda: len({each["event_id"] for each in announced}) >= 5 * len(jobs), "announcements")
        heard = {(each["job_id"], each["phase"], each["event_id"]) for each in announced}
        assert len(heard) == 5 * len(jobs), "each phase of each job under one id"
        living.kill()
        stop.set()
        await listening
