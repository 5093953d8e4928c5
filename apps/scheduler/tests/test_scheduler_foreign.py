"""Beside programs that know only the tables: plain CQL, no column more than theirs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from scheduler_world import World, open_world

from headrace_scheduler.frame import FRAME
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import JobStatus, Pending
from headrace_scheduler.reconciler.reconciler import JobReconciler

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
    found = await real.desk.find(job_id)
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


async def test_ten_thousand_finished_jobs_do_not_slow_the_poll(real: World) -> None:
    await real.candidates()
    before = await poll_s(real)
    old, room = datetime.now(UTC) - timedelta(minutes=30), asyncio.Semaphore(AT_A_TIME)

    async def finished(number: int) -> None:
        row = Pending(number % 4, whole_ms(old + timedelta(milliseconds=number)), UUID(int=number), "{}")
        async with room:
            await real.tables.pending.add(row)
            await real.tables.pending.remove(row)

    await asyncio.gather(*(finished(number) for number in range(FINISHED)))
    assert await poll_s(real) < 3 * before + 0.01


async def poll_s(world: World) -> float:
    """The best of several."""
    found = []
    for _ in range(20):
        began = time.perf_counter()
        assert await world.candidates() == []
        found.append(time.perf_counter() - began)
    return min(found)
