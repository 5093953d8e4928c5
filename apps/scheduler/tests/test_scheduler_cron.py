"""Cron schedules: each moment is one job, whoever fires it and how often."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from scheduler_cron import cron_of
from scheduler_world import World
from test_scheduler_api import client_of, run

from headrace.errors import TryAgain
from headrace.schedules import Misfire
from headrace_scheduler.cron.cron_firer import AGAIN_S
from headrace_scheduler.cron.cron_schedule import job_id_of
from headrace_scheduler.cron.fire_creator import HOLD_S, FireCreator
from headrace_scheduler.jobs.values import JobStatus
from headrace_scheduler.reconciler.reconciler import YOUNG, JobReconciler
from headrace_scheduler.tables.audit_events import AuditEvents

CRON = {"schedule": "0 9 * * MON-FRI", "payload": {}, "max_duration_seconds": 60}


@pytest.fixture(autouse=True)
def begin_of_a_minute(request: pytest.FixtureRequest) -> None:
    """At the begin of a minute: another one, whose moment would fire as well, must not begin while a test runs."""
    for name in {"world", "embedded"} & set(request.fixturenames):
        found: World = request.getfixturevalue(name)
        found.clock.move(seconds=61 - found.clock().second)


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(world) as client:
        yield client


@pytest.fixture
async def local(embedded: World) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(embedded) as client:
        yield client


async def test_a_cron_expression_makes_a_schedule(client: httpx.AsyncClient) -> None:
    body = {**CRON, "time_zone": "Asia/Ho_Chi_Minh", "misfire": "all", "days_out": ["12-25"]}
    key = {"Idempotency-Key": str(uuid4())}
    made = await client.post("/jobs", json=body, headers=key)
    document = made.json()
    assert (made.status_code, document["status"], document["misfire"]) == (201, "active", "all")
    assert document["scheduled_time"].endswith("T02:00:00.000Z")
    where = made.headers["location"]
    assert where == f"/schedules/{document['schedule_id']}"
    assert (await client.post("/jobs", json=body, headers=key)).json() == document
    assert (await client.get("/schedules")).json() == {"schedules": [document], "next": None}
    shown = (await client.get(where)).json()
    assert {name: shown[name] for name in document} == document
    assert (shown["fires"], shown["payload"], len(shown["next"])) == ([], {}, 5)


async def test_schedules_are_listed_by_pages(client: httpx.AsyncClient, world: World) -> None:
    cron = cron_of(world)
    now = world.clock()
    made = [str(await cron.add("0 9 * * *", now + timedelta(milliseconds=number // 2))) for number in range(5)]
    found, cursor, pages = list[str](), "", 0
    while cursor is not None:
        page = (await client.get("/schedules", params={"limit": 2, "cursor": cursor})).json()
        found += [each["schedule_id"] for each in page["schedules"]]
        cursor, pages = page["next"], pages + 1
    assert (sorted(found), pages) == (sorted(made), 3)
    assert [made.index(each) // 2 for each in found] == [0, 0, 1, 1, 2]
    assert (await client.get("/schedules", params={"cursor": "x"})).status_code == 400
    assert (await client.get("/schedules", params={"limit": 0})).status_code == 422


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"schedule": "0 0 30 2 *"}, "0 0 30 2 *"),
        ({"schedule": "0 9 * * SAT", "days_out": ["SAT"]}, "never fires"),
        ({"schedule": "61 * * * *"}, "61"),
        ({"time_zone": "Asia/Saigon_"}, "Saigon_"),
        ({"misfire": "sometimes"}, "misfire"),
        ({"days_out": ["Christmas"]}, "Christmas"),
        ({"payload": {"type": "nope"}}, "nope"),
        ({"schedule": "now", "days_out": ["SAT"]}, "days_out"),
        ({"schedule": "+PT5S", "time_zone": "UTC"}, "time_zone"),
    ],
)
async def test_a_wrong_schedule_is_refused_by_the_field(
    change: dict[str, Any], named: str, local: httpx.AsyncClient
) -> None:
    answer = await local.post("/jobs", json={**CRON, **change})
    assert answer.status_code == 422
    assert named in answer.text
    assert (await local.get("/schedules")).json() == {"schedules": [], "next": None}


async def test_a_moment_is_one_job_that_runs(world: World, client: httpx.AsyncClient) -> None:
    cron = cron_of(world)
    schedule_id = await cron.add("* * * * *")
    await cron.fire_all()
    assert await cron.jobs(schedule_id) == []
    world.clock.move(minutes=1)
    await cron.fire_all()
    (job_id,) = await cron.jobs(schedule_id)
    shown = (await client.get(f"/schedules/{schedule_id}")).json()
    assert [UUID(fire["job_id"]) for fire in shown["fires"]] == [job_id]
    moment = datetime.fromisoformat(shown["fires"][0]["moment"])
    assert job_id == job_id_of(schedule_id, moment)
    await run(world, str(job_id))
    assert (await client.get(f"/jobs/{job_id}")).json()["scheduled_time"] == shown["fires"][0]["moment"]
    assert await world.candidates() == []


@pytest.mark.parametrize(("misfire", "jobs"), [(Misfire.SKIP, 0), (Misfire.ONCE, 1), (Misfire.ALL, 3)])
async def test_moments_at_which_no_worker_ran_follow_the_policy(misfire: Misfire, jobs: int, world: World) -> None:
    cron = cron_of(world)
    midnight = world.clock().replace(hour=0, minute=0, second=0, microsecond=0)
    schedule_id = await cron.add("0 0 * * *", midnight - timedelta(days=3, hours=-1), misfire=misfire)
    # By every clock at which this may run the last moment is late.
    world.clock.ahead = midnight + timedelta(hours=12) - datetime.now(UTC)
    await cron.fire_all()
    assert len(await cron.jobs(schedule_id)) == jobs
    # What is made up for is due now, where workers look.
    assert len(await world.candidates()) == jobs
    found = await cron.rows.find(schedule_id)
    assert found is not None
    assert found.marks.handled_at == midnight


async def test_several_that_fire_at_once_make_one_job_of_each_moment(world: World) -> None:
    firers = [cron_of(world) for _ in range(4)]
    since = world.clock() - timedelta(minutes=8)
    schedule_id = await firers[0].add("* * * * *", since, misfire=Misfire.ALL)
    await asyncio.gather(*(each.fire_all() for each in firers))
    jobs = await firers[0].jobs(schedule_id)
    assert len(jobs) == len(set(jobs)) == 8
    assert sorted(each.key for each in await world.candidates()) == sorted(map(str, jobs))


async def test_a_decision_on_what_is_no_longer_so_is_refused(world: World) -> None:
    cron = cron_of(world)
    since = world.clock() - timedelta(minutes=1)
    paused_id, fired_id = [await cron.add("* * * * *", since) for _ in range(2)]
    seen = {each.schedule_id: each for each in await cron.rows.all()}
    await cron.operations.pause(paused_id, "tester")
    assert await cron.firer.attend(seen[paused_id]) == AGAIN_S
    assert await cron.jobs(paused_id) == []
    moment = seen[fired_id].next_moments(since, 1)[0]
    assert await cron.rows.claim(seen[fired_id], moment, moment)
    assert not await cron.rows.claim(seen[fired_id], moment, moment)


async def test_a_repeat_does_not_bring_back_a_job_that_has_run(world: World) -> None:
    """Another process has seen the moment open, and comes to it when all is over."""
    cron = cron_of(world)
    schedule_id = await cron.add("* * * * *", world.clock() - timedelta(minutes=1))
    await cron.fire_all()
    (fire,) = await cron.rows.fires(schedule_id, 10)
    await run(world, str(fire.job_id))
    late = cron_of(world)
    assert await late.creator.finish(schedule_id, fire.moment)
    job = await world.tables.jobs.find(fire.job_id)
    assert job is not None
    await late.rows.enqueue(job.key, job.payload, fire.fired_at)
    assert await world.candidates() == []
    assert await world.status(fire.job_id) == JobStatus.COMPLETED


async def test_a_job_that_the_reconciler_has_put_back_is_not_enqueued_twice(world: World) -> None:
    """Whoever fired died before the pending row; the reconciler wrote one with another time."""
    cron = cron_of(world)
    schedule_id = await cron.add("* * * * *", world.clock() - timedelta(minutes=1))
    world.recorded.broken["fire_pending_add"] = TryAgain("gone")
    with pytest.raises(TryAgain):
        await cron.firer.look()
    world.clock.move(seconds=YOUNG.total_seconds() + 1)
    assert await JobReconciler(world.parts).look() == 1
    assert len(await world.candidates()) == 1
    await cron.fire_all()
    assert sorted(each.key for each in await world.candidates()) == sorted(map(str, await cron.jobs(schedule_id)))


async def test_a_job_whose_lock_is_held_is_left_to_the_holder(world: World) -> None:
    cron = cron_of(world)
    schedule_id = await cron.add("* * * * *", world.clock() - timedelta(minutes=1))
    schedule = await cron.rows.find(schedule_id)
    assert schedule is not None
    moment = schedule.next_moments(schedule.created_at, 1)[0]
    job_id = job_id_of(schedule_id, moment)
    leased = await world.parts.locks.take(job_id, "another", 30.0)
    assert leased is not None
    assert not await cron.creator.finish(schedule_id, moment)
    assert await world.candidates() == []
    assert await world.parts.locks.release(job_id, leased.lease.fence)
    assert await cron.creator.finish(schedule_id, moment)
    assert [each.key for each in await world.candidates()] == [str(job_id)]


async def test_a_process_that_was_frozen_past_its_lock_enqueues_nothing(world: World) -> None:
    cron = cron_of(world)
    schedule_id = await cron.add("* * * * *", world.clock() - timedelta(minutes=1))
    schedule = await cron.rows.find(schedule_id)
    assert schedule is not None
    moment = schedule.next_moments(schedule.created_at, 1)[0]
    frozen = FireCreator(world.tables, world.parts.locks, 4, monotonic=count(0.0, HOLD_S).__next__)
    with pytest.raises(TryAgain):
        await frozen.finish(schedule_id, moment)
    assert await world.candidates() == []


async def test_a_clock_that_was_set_back_fires_nothing_twice(world: World) -> None:
    cron = cron_of(world)
    schedule_id = await cron.add("* * * * *", misfire=Misfire.ALL)
    world.clock.move(minutes=3)
    await cron.fire_all()
    jobs = await cron.jobs(schedule_id)
    assert len(jobs) == 3
    for job_id in jobs:
        await run(world, str(job_id))
    world.clock.move(minutes=-2)
    assert await cron.firer.look() == AGAIN_S
    found = await cron.rows.find(schedule_id)
    assert found is not None
    assert found.marks.handled_at <= world.clock()
    world.clock.move(minutes=2)
    await cron.fire_all()
    assert (await cron.jobs(schedule_id))[:3] == jobs
    assert [each.key for each in await world.candidates() if UUID(each.key) in jobs] == []


async def test_a_schedule_is_paused_resumed_and_removed_and_audited(world: World, client: httpx.AsyncClient) -> None:
    cron = cron_of(world)
    schedule_id = await cron.add("* * * * *", misfire=Misfire.ALL)
    where = f"/schedules/{schedule_id}"
    paused = (await client.post(f"{where}/pause")).json()
    assert (paused["status"], paused["scheduled_time"]) == ("paused", None)
    world.clock.move(minutes=5)
    await cron.fire_all()
    assert (await client.post(f"{where}/resume")).json()["status"] == "active"
    await cron.fire_all()
    assert await cron.jobs(schedule_id) == []
    assert (await client.delete(where)).status_code == 204
    assert (await client.get(where)).status_code == 404
    assert (await client.delete(where)).status_code == 404
    day = world.clock().date().isoformat()
    told = [each.action for each in await AuditEvents(world.recorded).of_day(day) if each.subject == str(schedule_id)]
    assert told == ["schedule.pause", "schedule.resume", "schedule.remove"]


async def test_a_schedule_is_removed_only_when_what_has_fired_has_its_job(world: World) -> None:
    cron = cron_of(world)
    schedule_id = await cron.add("* * * * *", world.clock() - timedelta(minutes=1))
    schedule = await cron.rows.find(schedule_id)
    assert schedule is not None
    moment = schedule.next_moments(world.clock() - timedelta(minutes=1), 1)[0]
    assert await cron.rows.claim(schedule, moment, moment)
    assert not await cron.rows.remove(schedule)
    await cron.operations.remove(schedule_id, "tester")
    assert [each.key for each in await world.candidates()] == [str(job_id_of(schedule_id, moment))]


async def test_an_unreadable_schedule_hinders_no_other(embedded: World) -> None:
    cron = cron_of(embedded)
    since = embedded.clock() - timedelta(minutes=1)
    await cron.add("* * * * *", since, time_zone="Mars/Olympus")
    schedule_id = await cron.add("* * * * *", since)
    await cron.fire_all()
    assert len(await cron.jobs(schedule_id)) == 1


async def test_fires_are_kept_for_a_month(embedded: World) -> None:
    cron = cron_of(embedded)
    schedule_id = await cron.add("* * * * *", embedded.clock() - timedelta(minutes=1))
    await cron.fire_all()
    embedded.clock.move(days=31)
    await cron.fire_all()
    assert len(await cron.jobs(schedule_id)) == 1


async def test_commands_show_change_and_remove_schedules(
    world: World, environment: dict[str, str], headrace_command: Any
) -> None:
    schedule_id = str(await cron_of(world).add("0 9 * * *", time_zone="Asia/Ho_Chi_Minh"))

    async def asked(*words: str) -> tuple[int, dict[str, Any]]:
        done = await asyncio.to_thread(headrace_command, "scheduler", "schedules", *words, "--json", **environment)
        return done.returncode, json.loads(done.stdout) if done.stdout else {}

    code, found = await asked("list")
    assert (code, [each["schedule_id"] for each in found["schedules"]]) == (0, [schedule_id])
    assert (await asked("pause", schedule_id))[1]["status"] == "paused"
    assert (await asked("show", schedule_id))[1]["next"] == []
    assert (await asked("resume", schedule_id))[1]["status"] == "active"
    assert (await asked("remove", schedule_id))[1]["status"] == "removed"
    assert (await asked("show", schedule_id))[0] == 3
