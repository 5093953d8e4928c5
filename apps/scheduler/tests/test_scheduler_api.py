"""What clients see of jobs, and what they can do to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from scheduler_cron import cron_of
from scheduler_world import World

from headrace.http import Options, application
from headrace_scheduler.api.desk import JobWish
from headrace_scheduler.api.routes import dead_routes, job_routes
from headrace_scheduler.cron.routes import cron_routes
from headrace_scheduler.jobs.values import DeadJob, JobStatus
from headrace_scheduler.tables.job_list import JobList

JOB = {"schedule": "now", "payload": {}, "max_duration_seconds": 60}


@asynccontextmanager
async def client_of(world: World) -> AsyncIterator[httpx.AsyncClient]:
    options = Options("scheduler", idempotency=world.parts.request_keys)
    cron = cron_of(world).operations
    jobs = job_routes(world.desk, JobList(world.tables.jobs, 4), cron)
    app = application(options, [jobs, dead_routes(world.desk), cron_routes(cron)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(world) as client:
        yield client


@pytest.fixture
async def local(embedded: World) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(embedded) as client:
        yield client


async def run(world: World, job_id: str) -> None:
    """A worker runs the job well."""
    (candidate,) = [each for each in await world.candidates() if each.key == job_id]
    item = await world.source.hold(candidate, "worker-1", 5.0)
    assert item is not None
    assert await world.source.settle(item, world.settlement(result={"sum": 3}))


async def test_a_job_is_created_run_shown_and_run_again(world: World, client: httpx.AsyncClient) -> None:
    made = await client.post("/jobs", json=JOB)
    document = made.json()
    assert (made.status_code, document["status"], set(document)) == (
        201,
        "pending",
        {"job_id", "status", "scheduled_time"},
    )
    where = made.headers["location"]
    assert where == f"/jobs/{document['job_id']}"
    shown = (await client.get(where)).json()
    assert shown == {**document, "attempts": 0, "payload": {}, "last_run": None}
    assert (await client.post(f"{where}/run")).status_code == 409
    await run(world, document["job_id"])
    shown = (await client.get(where)).json()
    assert (shown["status"], shown["last_run"]["status"], shown["last_run"]["worker_id"]) == (
        "completed",
        "completed",
        "worker-1",
    )
    assert set(shown["last_run"]) == {"run_id", "worker_id", "fencing_token", "start_at", "end_at", "status"}
    assert (await client.get(f"{where}/result")).json()["result"] == {"sum": 3}
    again = await client.post(f"{where}/run")
    assert (again.status_code, again.json()["status"]) == (202, "pending")
    world.clock.move(seconds=1)
    await run(world, document["job_id"])
    assert len((await client.get(f"{where}/runs")).json()["runs"]) == 2


async def test_a_repeated_key_answers_with_the_first_job(world: World, client: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": f"order-{uuid4()}"}
    first = await client.post("/jobs", json=JOB, headers=key)
    async with client_of(world) as another:
        again = await another.post("/jobs", json=JOB, headers=key)
        other = await another.post("/jobs", json={**JOB, "schedule": "+PT1H"}, headers=key)
    assert (first.status_code, again.status_code, other.status_code) == (201, 201, 422)
    assert again.content == first.content
    assert len(await world.candidates()) == 1


async def test_dead_jobs_are_listed_and_run_again(world: World, client: httpx.AsyncClient) -> None:
    made = (await client.post("/jobs", json={**JOB, "payload": {"type": "fail"}})).json()
    job = await world.tables.jobs.find(UUID(made["job_id"]))
    assert job is not None
    (candidate,) = await world.candidates()
    await world.tables.pending.remove(candidate.row)
    await world.tables.dead.add(DeadJob(job.job_id, 5, "why", world.clock(), job.payload, "Kind", "stack", "trace"))
    await world.tables.jobs.write_status(job, JobStatus.DLQ, 5)
    listed = {each["job_id"]: each for each in (await client.get("/dlq", params={"limit": 200})).json()["jobs"]}
    assert (listed[made["job_id"]]["attempts"], listed[made["job_id"]]["payload"]) == (5, {"type": "fail"})
    assert (await client.post(f"/dlq/{made['job_id']}/redrive")).status_code == 202
    assert (await client.get(f"/jobs/{made['job_id']}")).json()["attempts"] == 0
    assert await world.tables.dead.find(job.job_id) is None
    assert (await client.post(f"/dlq/{made['job_id']}/redrive")).status_code == 404


async def test_a_dead_job_that_only_another_program_knew_runs_again(world: World, client: httpx.AsyncClient) -> None:
    job_id = uuid4()
    await world.tables.dead.add(DeadJob(job_id, 5, "why", world.clock(), "{}"))
    assert (await client.post(f"/dlq/{job_id}/redrive")).status_code == 202
    await run(world, str(job_id))
    assert (await client.get(f"/jobs/{job_id}")).json()["status"] == "completed"


async def test_a_job_that_waits_is_cancelled_at_once(world: World, client: httpx.AsyncClient) -> None:
    where = (await client.post("/jobs", json=JOB)).headers["location"]
    assert (await client.post(f"{where}/cancel")).json()["status"] == "cancelled"
    assert await world.candidates() == []
    assert (await client.post(f"{where}/cancel")).status_code == 409
    assert (await client.post(f"{where}/run")).status_code == 202
    world.clock.move(seconds=1)
    assert len(await world.candidates()) == 1


async def test_jobs_are_searched_by_status_and_time(embedded: World, local: httpx.AsyncClient) -> None:
    made = [(await local.post("/jobs", json={**JOB, "schedule": f"+PT{n}H"})).json() for n in range(1, 6)]
    seen, cursor = [], ""
    while cursor is not None:
        page = (await local.get("/jobs", params={"limit": 2, "cursor": cursor})).json()
        seen += [each["job_id"] for each in page["jobs"]]
        cursor = page["next"]
    assert seen == [each["job_id"] for each in reversed(made)]
    between = {"since": made[1]["scheduled_time"], "before": made[3]["scheduled_time"], "status": "pending"}
    found = (await local.get("/jobs", params=between)).json()["jobs"]
    assert [each["job_id"] for each in found] == [made[2]["job_id"], made[1]["job_id"]]
    assert (await local.get("/jobs", params={"status": "running"})).json()["jobs"] == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"schedule": "tomorrow"}, "schedule"),
        ({"schedule": 7}, "schedule"),
        ({"payload": []}, "payload"),
        ({"payload": {"type": "nope"}}, "nope"),
        ({"max_duration_seconds": 0}, "max_duration_seconds"),
        ({"max_duration_seconds": True}, "max_duration_seconds"),
        ({"max_duration_seconds": "60"}, "max_duration_seconds"),
        ({"priority": 1}, "priority"),
    ],
)
async def test_a_wrong_job_is_refused_by_the_field(
    change: dict[str, Any], named: str, local: httpx.AsyncClient
) -> None:
    answer = await local.post("/jobs", json={**JOB, **change})
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert named in answer.text


async def test_a_body_over_the_limit_is_refused_with_its_name(local: httpx.AsyncClient) -> None:
    answer = await local.post("/jobs", json={**JOB, "payload": {"text": "x" * 1_048_576}})
    assert answer.status_code == 413
    assert "body_bytes_max" in answer.text


@pytest.mark.parametrize("path", ["", "/runs", "/result", "/progress"])
async def test_a_job_that_nobody_knows_is_not_found(path: str, local: httpx.AsyncClient) -> None:
    assert (await local.get(f"/jobs/{uuid4()}{path}")).status_code == 404
    assert (await local.post(f"/jobs/{uuid4()}/run")).status_code == 404


async def test_a_crash_between_the_tables_and_the_answer_makes_no_second_job(
    embedded: World, local: httpx.AsyncClient
) -> None:
    """The repeat has the same seed: it finds the job that has run meanwhile, and leaves it."""
    job = await embedded.create()
    await run(embedded, str(job.job_id))
    found = await embedded.desk.create(JobWish("now", {}), str(job.job_id), again=True)
    assert found.status == JobStatus.COMPLETED
    assert await embedded.candidates() == []


async def test_of_two_who_want_a_job_to_run_again_one_is_refused(world: World, client: httpx.AsyncClient) -> None:
    where = (await client.post("/jobs", json=JOB)).headers["location"]
    await run(world, where.rpartition("/")[2])
    answers = await asyncio.gather(*(client.post(f"{where}/run") for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [202, 409, 409, 409]
    world.clock.move(seconds=1)
    assert len(await world.candidates()) == 1
