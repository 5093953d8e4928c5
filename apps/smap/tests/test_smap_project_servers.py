"""The project service on RabbitMQ, Redis, S3 and PostgreSQL, several instances at a time, and while they fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
from smap_office import EXAMPLE, Office, open_office
from waiting import eventually

from headrace.ports import JobFilter
from headrace.testing.rig.proxy import Proxy
from headrace_smap.frame import FRAME
from headrace_smap.parts import open_parts
from headrace_smap.project.operations import desk_of
from headrace_smap.project.recrawls import FLOW, schedule_name
from headrace_smap.settings import SmapSettings


async def told(office: Office, count: int) -> list[dict[str, Any]]:
    """So many events, and no more within a moment."""
    found: list[dict[str, Any]] = []

    async def enough() -> bool:
        found.extend(await office.events())
        return len(found) >= count

    await eventually(enough, lambda: f"{count} events; there were {found}")
    return [*found, *await office.events()]


async def test_a_project_lives_and_goes_on_real_servers(real: SmapSettings) -> None:
    async with open_office(real) as office, open_parts(real) as other:
        headers = {"Idempotency-Key": "one"}
        answers = [await office.client.post("/projects", json=EXAMPLE, headers=headers) for _ in range(2)]
        assert answers[0].content == answers[1].content
        project = answers[0].json()["id"]
        relays = [office.desk.relay, desk_of(other).relay]
        await asyncio.gather(*(relay.relay() for relay in relays))
        (created,) = await told(office, 1)
        assert created["payload"] == {"project_id": project, **EXAMPLE}
        paths = [f"raw/{number}.json" for number in range(4)]
        for path in paths:
            await office.parts.blobs.put(path, b"{}")
        await office.crawl(project, paths[:2], paths[2:])
        await office.analyse(project, paths[:2])
        assert (await told(office, 1))[0]["topic"] == "job.completed"
        assert (await office.client.post(f"/projects/{project}/retry")).json()["retried"] == 2
        await office.desk.relay.relay()
        assert {event["payload"]["minio_path"] for event in await told(office, 2)} == set(paths[2:])
        assert (await office.client.get(f"/projects/{project}/failures")).json()["items"][0]["item"] == paths[2]
        for form in ("csv", "xlsx", "parquet"):
            assert (await office.client.get(f"/projects/{project}/export?format={form}")).status_code == 200
        (item,) = (await office.client.get("/projects", params={"status": "DONE"})).json()["items"]
        assert item["progress"] == {"total": 4, "processed": 4, "errors": 2, "percent": 100.0}
        assert (await office.client.delete(f"/projects/{project}")).status_code == 204
        assert await office.desk.deleter.sweep()
        assert [path async for path in office.parts.blobs.list("raw")] == []
        assert (await office.client.get(f"/projects/{project}/progress")).status_code == 404
        assert (await office.client.get("/projects")).json() == {"items": [], "next": None}


async def test_instances_on_one_database_fire_a_due_time_once(postgres_database: str, tmp_path: Any) -> None:
    settings = FRAME.load({"SMAP_HOME": str(tmp_path), "SMAP_PG_DSN": postgres_database, "SMAP_SIMULATED": "1"})
    async with open_office(settings) as office, open_parts(settings) as other:
        parent = await office.make()
        await office.crawl(parent, [])
        await office.client.post(f"/projects/{parent}/recrawl", json={"every_hours": 1})
        assert await office.parts.engine.schedules.run(schedule_name(parent))
        stop = asyncio.Event()
        desks = [office.desk, desk_of(other, office.calendar)]
        services = [asyncio.ensure_future(desk.recrawls.run(stop)) for desk in desks * 2]

        async def made() -> bool:
            jobs = await other.engine.jobs(JobFilter(flow=FLOW))
            return bool(jobs) and all(job.state == "finished" for job in jobs)

        await eventually(made, "the due time is fired and its job has ended")
        stop.set()
        await asyncio.wait_for(asyncio.gather(*services), 60)
        items = (await office.client.get("/projects")).json()["items"]
        assert sorted(item["parent"] or "" for item in items) == ["", parent]
        plan = (await office.client.get(f"/projects/{parent}/recrawl")).json()
        assert plan["runs"] == 1


async def test_the_same_key_at_once_on_two_instances_is_one_project(postgres_database: str, tmp_path: Any) -> None:
    settings = FRAME.load({"SMAP_HOME": str(tmp_path), "SMAP_PG_DSN": postgres_database, "SMAP_SIMULATED": "1"})
    async with open_office(settings) as office, open_office(settings) as other:

        async def ordered(client: httpx.AsyncClient, key: str) -> httpx.Response:
            return await client.post("/projects", json=EXAMPLE, headers={"Idempotency-Key": key})

        for key in map(str, range(5)):
            answers = await asyncio.gather(*(ordered(each.client, key) for each in (office, other) for _ in range(3)))
            assert {answer.status_code for answer in answers} <= {201, 409}
            assert {(await ordered(office.client, key)).json()["id"]} == {
                answer.json()["id"] for answer in answers if answer.status_code == 201
            }
        assert len((await office.client.get("/projects")).json()["items"]) == 5


async def test_a_commit_whose_answer_was_lost_is_one_project(
    postgres_database: str, tmp_path: Any, fault_proxy: Callable[[str], Proxy]
) -> None:
    proxy = fault_proxy(postgres_database)
    settings = FRAME.load({"SMAP_HOME": str(tmp_path), "SMAP_PG_DSN": proxy.url, "SMAP_SIMULATED": "1"})
    async with open_office(settings) as office:
        for number in range(3):
            order, headers = {**EXAMPLE, "name": f"cut-{number}"}, {"Idempotency-Key": str(number)}
            proxy.cut_reply_to(f"cut-{number}".encode())
            # The transaction is sent again by itself; a request that was given up is asked for again by its client.
            answers = [await office.client.post("/projects", json=order, headers=headers) for _ in range(3)]
            proxy.wait_for_cut(count=number + 1)
            assert answers[-1].status_code == 201
            assert {answer.content for answer in answers if answer.status_code == 201} == {answers[-1].content}
        items = (await office.client.get("/projects")).json()["items"]
        assert sorted(item["name"] for item in items) == ["cut-0", "cut-1", "cut-2"]


async def test_a_ledger_and_a_bus_that_are_away_delay_a_project_and_lose_nothing(
    real_environment: dict[str, str], fault_proxy: Callable[[str], Proxy]
) -> None:
    redis, rabbit = fault_proxy(real_environment["SMAP_REDIS_URL"]), fault_proxy(real_environment["SMAP_AMQP_URL"])
    async with open_office(FRAME.load(real_environment)) as ear:
        environment = {**real_environment, "SMAP_REDIS_URL": redis.url, "SMAP_AMQP_URL": rabbit.url}
        async with open_office(FRAME.load(environment)) as office:
            for proxy in (redis, rabbit):
                proxy.refuse()
                proxy.reset()
            answer = await office.client.post("/projects", json=EXAMPLE)
            assert answer.status_code == 201
            project = answer.json()["id"]
            stop = asyncio.Event()
            running = asyncio.ensure_future(office.desk.relay.run(stop))
            for proxy in (redis, rabbit):
                proxy.heal()
            (created,) = await told(ear, 1)
            assert created["payload"]["project_id"] == project
            assert (await office.client.get(f"/projects/{project}/progress")).json()["status"] == "INITIALIZING"
            stop.set()
            await asyncio.wait_for(running, 60)
