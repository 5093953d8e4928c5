"""What clients see of jobs, and what they can do to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from scheduler_cron import cron_of
from scheduler_world import BUCKETS, HOLD_S, World

from headrace.errors import Conflict
from headrace.http import Options, application
from headrace.ports import Leased, Loss
from headrace.sources import ItemState
from headrace_scheduler.api.job_requests import JobRequests, JobWish
from headrace_scheduler.api.routes import JobSurface, dead_routes, job_routes, told_routes
from headrace_scheduler.cron.routes import cron_routes
from headrace_scheduler.handlers.registry import HandlerRegistry
from headrace_scheduler.jobs.values import DeadJob, JobStatus
from headrace_scheduler.tables.job_list import JobList
from headrace_scheduler.tenants.open_jobs import OpenJobs
from headrace_scheduler.work.job_locks import JobLocks

DEFAULT = {"tenant": "default", "priority": "normal"}
JOB = {"schedule": "now", "payload": {}, "max_duration_seconds": 60}


@asynccontextmanager
async def client_of(world: World) -> AsyncIterator[httpx.AsyncClient]:
    options = Options("scheduler", idempotency=world.parts.request_keys)
    cron = cron_of(world).operations
    rules = world.parts.settings.tenants
    surface = JobSurface(world.requests, JobList(world.tables, 4), cron, OpenJobs(world.tables, 4, rules))
    jobs = job_routes(surface)
    routes = [jobs, told_routes(surface), dead_routes(surface), cron_routes(cron)]
    app = application(options, routes)
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
    item = await world.source.hold(candidate, "worker-1", HOLD_S)
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
    told = {"type": None, "due_at": document["scheduled_time"], "waits_for": "worker", "last_error": None}
    assert shown == {**document, "attempts": 0, "payload": {}, "last_run": None, **DEFAULT, **told}
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


async def test_a_job_that_waits_for_its_retry_shows_how_it_failed(world: World, client: httpx.AsyncClient) -> None:
    made = (await client.post("/jobs", json={**JOB, "payload": {"type": "sleep", "seconds": 0}})).json()
    item = await world.hold(UUID(made["job_id"]))
    assert item is not None
    failure = Loss(0, "RunFailed", error="RunFailed: no luck " + "x" * 1_000 + "\n  file.py:1 in run")
    again = world.settlement(ItemState.AGAIN, attempts=1, failure=failure, delay_s=60.0)
    assert await world.source.settle(item, again)
    shown = (await client.get(f"/jobs/{made['job_id']}")).json()
    assert (shown["status"], shown["attempts"], shown["last_run"]["status"]) == ("pending", 1, "failed")
    assert shown["last_error"] == ("RunFailed: no luck " + "x" * 1_000)[:300]
    assert shown["due_at"] > shown["scheduled_time"]
    assert shown["waits_for"] == "retry"
    (row,) = (await client.get("/jobs")).json()["jobs"]
    assert row == {name: value for name, value in shown.items() if name not in ("payload", "last_run")}
    world.clock.move(minutes=2)
    await run(world, made["job_id"])
    shown = (await client.get(f"/jobs/{made['job_id']}")).json()
    assert (shown["status"], shown["due_at"], shown["type"]) == ("completed", None, "sleep")
    assert shown["last_error"].startswith("RunFailed"), "it did fail once"


async def test_the_error_of_a_dead_job_is_named_by_its_rule(world: World, client: httpx.AsyncClient) -> None:
    made = (await client.post("/jobs", json=JOB)).json()
    item = await world.hold(UUID(made["job_id"]))
    assert item is not None
    dead = world.settlement(ItemState.DEAD, attempts=1, failure=Loss(0, "/bin/rm is not allowed", "not_allowed"))
    assert await world.source.settle(item, dead)
    shown = (await client.get(f"/jobs/{made['job_id']}")).json()
    assert (shown["status"], shown["last_error"]) == ("dlq", "not_allowed: /bin/rm is not allowed")


async def test_a_run_that_goes_well_has_no_statement_more_for_the_errors_of_others(embedded: World) -> None:
    job = await embedded.create()
    item = await embedded.hold(job.job_id)
    assert item is not None
    assert await embedded.source.settle(item, embedded.settlement())
    assert not {"job_error", "job_summary"} & set(embedded.recorded.names)


async def test_a_list_says_what_kind_of_jobs_these_are(world: World, client: httpx.AsyncClient) -> None:
    await client.post("/jobs", json={**JOB, "schedule": "+PT1H", "payload": {"type": "sleep", "seconds": 0}})
    await world.insert_foreign(3, world.clock() - timedelta(minutes=1), '{"type": "sleep"}')
    await world.insert_foreign(2, world.clock() - timedelta(minutes=2), "no JSON")
    ours, seen, unseen = (await client.get("/jobs")).json()["jobs"]
    assert (ours["type"], ours["status"], ours["due_at"]) == ("sleep", "pending", ours["scheduled_time"])
    # Another program's rows tell nothing more until a worker has seen them.
    assert [(row["type"], row["due_at"]) for row in (seen, unseen)] == [(None, None)] * 2
    for row in (seen, unseen):
        await run(world, row["job_id"])
    found = (await client.get("/jobs", params={"status": "completed"})).json()["jobs"]
    assert [row["type"] for row in found] == ["sleep", None]


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
    found = await embedded.requests.create(JobWish("now", {}), str(job.job_id), again=True)
    assert found.status == JobStatus.COMPLETED
    assert await embedded.candidates() == []


async def test_of_two_who_want_a_job_to_run_again_one_is_refused(world: World, client: httpx.AsyncClient) -> None:
    where = (await client.post("/jobs", json=JOB)).headers["location"]
    await run(world, where.rpartition("/")[2])
    answers = await asyncio.gather(*(client.post(f"{where}/run") for _ in range(4)))
    assert sorted(answer.status_code for answer in answers) == [202, 409, 409, 409]
    world.clock.move(seconds=1)
    assert len(await world.candidates()) == 1


async def test_of_two_that_run_a_job_again_at_once_one_is_refused(embedded: World) -> None:
    """Both have seen that it has ended; the second to have the lock sees that it waits."""
    world = embedded
    job = await world.create()
    await run(world, str(job.job_id))

    class Slow(JobLocks):
        async def take(self, job_id: UUID, holder: str, hold_s: float) -> Leased | None:
            await world.requests.run_again(job_id)
            return await super().take(job_id, holder, hold_s)

    late = JobRequests(world.tables, Slow(world.parts.leases), HandlerRegistry({}), int(BUCKETS), HOLD_S)
    with pytest.raises(Conflict):
        await late.run_again(job.job_id)
    assert len(await world.candidates()) == 1


async def test_a_cancelled_job_that_is_run_again_is_not_cancelled_again(embedded: World) -> None:
    world = embedded
    job = await world.create()
    item = await world.hold(job.job_id)
    assert item is not None
    await world.requests.cancel(job.job_id)
    assert not await world.source.renew(item, HOLD_S)
    assert await world.status(job.job_id) == "cancelled"
    await world.requests.run_again(job.job_id)
    again = await world.hold(job.job_id)
    assert again is not None
    assert await world.source.renew(again, HOLD_S)
