"""Beside programs that know only the tables: plain CQL, no column more than theirs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID, uuid4

import httpx
import pytest
import uuid_utils
from scheduler_world import BUCKETS, World, open_world
from waiting import eventually

from headrace.adapters.cassandra.leases import CassandraLeases
from headrace.errors import ClockSkewed
from headrace.http import Options, application
from headrace.runtime.seams import RealClock
from headrace.tables import CassandraTables
from headrace_scheduler.api.job_requests import JobRequests, JobWish
from headrace_scheduler.cron.cron_firer import CronFirer
from headrace_scheduler.cron.cron_schedule import CronMarks, CronRule, CronSchedule
from headrace_scheduler.cron.fire_creator import FireCreator
from headrace_scheduler.frame import FRAME
from headrace_scheduler.handlers.registry import HandlerRegistry
from headrace_scheduler.handlers.simple import NoOperation
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import JobStatus, Pending
from headrace_scheduler.parts import checked_now
from headrace_scheduler.reconciler.reconciler import JobReconciler
from headrace_scheduler.service import SchedulerService
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.cron_rows import CronRows
from headrace_scheduler.work.job_locks import JobLocks

FINISHED = 10_000
AT_A_TIME = 200


@pytest.fixture
async def real(cassandra_environment: dict[str, str]) -> AsyncIterator[World]:
    async with open_world(FRAME.load(cassandra_environment)) as world:
        yield world


async def plain(world: World, *statements: str) -> None:
    """Statements as another program sends them."""
    session = world.parts.leases._session  # type: ignore[attr-defined]
    for statement in statements:
        await session.define(statement)


def literal(moment: datetime) -> str:
    return f"'{moment.astimezone(UTC).isoformat(timespec='milliseconds')}'"


@pytest.mark.parametrize("days", [0, 40])
async def test_rows_inserted_by_hand_without_attempts_run_like_ours(real: World, days: int) -> None:
    job_id, at = uuid4(), literal(datetime.now(UTC) - timedelta(days=days, seconds=1))
    key, values = "bucket_id, scheduled_time, job_id, payload", f"3, {at}, {job_id}, '{{}}'"
    await plain(
        real,
        f"INSERT INTO jobs_sharded ({key}, status) VALUES ({values}, 'pending')",
        f"INSERT INTO jobs_pending_by_bucket ({key}) VALUES ({values})",
    )
    await JobReconciler(real.parts).look()
    item = await real.hold(job_id)
    assert item is not None
    assert item.attempts == 0
    assert await real.source.settle(item, real.settlement())
    found = await real.requests.find(job_id)
    assert (found.job.status, found.job.attempts) == (JobStatus.COMPLETED, 0)
    assert found.last_run is not None


async def test_a_job_that_a_foreign_worker_left_running_is_put_back(real: World) -> None:
    """It has deleted the pending row and taken the lock by the text's statements, and is dead since."""
    job_id, at = uuid4(), literal(datetime.now(UTC) - timedelta(minutes=1))
    past = literal(datetime.now(UTC) - timedelta(seconds=5))
    await plain(
        real,
        "INSERT INTO jobs_sharded (bucket_id, scheduled_time, job_id, payload, status, attempts) "
        f"VALUES (1, {at}, {job_id}, '{{}}', 'running', 0)",
        "INSERT INTO locks (resource_id, holder, fencing_token, expire_at, epoch) "
        f"VALUES ('job:{job_id}', 'foreign', 1, {past}, 0) IF NOT EXISTS",
        f"INSERT INTO lock_seq (resource, last_seq) VALUES ('job:{job_id}', 100) IF NOT EXISTS",
    )
    real.clock.move(seconds=10)
    assert await JobReconciler(real.parts).look() == 1
    item = await real.hold(job_id)
    assert item is not None
    assert item.fence > 100
    assert not item.suspect, "nothing says that its run had begun"


async def test_what_a_foreign_worker_lost_is_a_suspect_and_never_charged(real: World) -> None:
    """It knows no runs that are alone, also when it takes a suspect."""
    job = await real.create()
    for token in (200, 300):
        past = literal(datetime.now(UTC) - timedelta(seconds=5))
        key = f"bucket_id = {job.key.bucket_id} AND scheduled_time = {literal(job.key.scheduled_time)}"
        await plain(
            real,
            f"UPDATE jobs_sharded SET status = 'running' WHERE {key} AND job_id = {job.job_id}",
            "INSERT INTO job_history (job_id, run_id, worker_id, fencing_token, start_at, status) "
            f"VALUES ('{job.job_id}', {uuid4()}, 'foreign', {token}, {past}, 'running')",
            "INSERT INTO locks (resource_id, holder, fencing_token, expire_at, epoch) "
            f"VALUES ('job:{job.job_id}', 'foreign', {token}, {past}, 0) IF NOT EXISTS",
        )
        for pending in await real.candidates():
            await real.tables.pending.remove(pending.row)
        real.clock.move(seconds=10)
        assert await JobReconciler(real.parts).look() == 1
        real.clock.move(seconds=1)
    item = await real.hold(job.job_id)
    assert item is not None
    assert (item.suspect, item.crashes, item.attempts) == (True, 0, 0)


async def test_ten_thousand_finished_jobs_do_not_slow_the_poll(real: World) -> None:
    await real.candidates()
    before = await poll_s(real)
    old, room = datetime.now(UTC) - timedelta(minutes=30), asyncio.Semaphore(AT_A_TIME)

    async def finished(number: int) -> None:
        row = Pending(number % 4, whole_ms(old + timedelta(milliseconds=number)), UUID(int=number), "{}")
        # What is left of a row that was there is what is left of one that was not.
        async with room:
            await real.tables.pending.remove(row)

    await asyncio.gather(*(finished(number) for number in range(FINISHED)))

    async def is_quick() -> bool:
        return await poll_s(real) < 3 * before + 0.01

    # A poll that read what is left of ten thousand rows would be slow each time, and not only while others are busy.
    await eventually(is_quick, "a poll takes as long as before")


async def poll_s(world: World) -> float:
    """The best of several."""
    found = []
    for _ in range(20):
        began = time.perf_counter()
        assert await world.candidates() == []
        found.append(time.perf_counter() - began)
    return min(found)


class HourAhead(RealClock):
    """A machine whose time is wrong."""

    def wall(self) -> float:
        return super().wall() + 3_600.0


async def an_hour_ahead(world: World) -> tuple[AllTables, CassandraLeases]:
    """The tables and locks of a process with such a clock."""
    session = world.parts.leases._session  # type: ignore[attr-defined]
    leases = CassandraLeases(session, clock=HourAhead())
    await leases.measure()
    return AllTables.on(world.recorded, partial(checked_now, CassandraTables(session, leases), 30.0)), leases


@pytest.mark.parametrize("name", ["api", "worker"])
async def test_a_process_whose_clock_is_refused_is_not_ready_and_says_why(name: str, real: World) -> None:
    tables, leases = await an_hour_ahead(real)
    for parts, ok in ((real.parts, True), (replace(real.parts, tables=tables, leases=leases), False)):
        service = SchedulerService(name, parts)
        checks = {part: service.parts[part].answers for part in ("tables", "clock")}
        app = application(Options("scheduler", checks=checks), service.routes())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
            answer = await client.get("/readyz")
        found = answer.json()["checks"]
        assert (answer.status_code, found["tables"]["ok"], found["clock"]["ok"]) == (200 if ok else 503, True, ok)
        assert found["clock"].get("error") == (None if ok else "ClockSkewed")


async def test_a_clock_an_hour_off_creates_no_job_and_fires_nothing(real: World) -> None:
    """Its jobs would be due an hour late, and nobody would see why."""
    tables, leases = await an_hour_ahead(real)
    requests = JobRequests(tables, JobLocks(leases), HandlerRegistry({"": NoOperation()}), int(BUCKETS), 30.0)
    real.recorded.written()
    with pytest.raises(ClockSkewed):
        await requests.create(JobWish("now", {}), str(uuid_utils.uuid7()))
    with pytest.raises(ClockSkewed):
        await CronFirer(CronRows(real.recorded), FireCreator(tables, JobLocks(leases), 4), tables.now).attend(
            CronSchedule(uuid4(), CronRule("* * * * *"), CronMarks(real.clock()), real.clock())
        )
    assert real.recorded.written() == []
