"""Rows whose lock somebody else has for long: they are passed by, and hide nothing from a poll."""

from __future__ import annotations

import asyncio
import random
import time
from datetime import timedelta
from uuid import UUID, uuid4

from scheduler_world import World
from waiting import eventually

from headrace.sources import ItemCandidate, SourceContext, SourceOptions, SourceWorker
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import JobStatus, Pending, resource_of
from headrace_scheduler.reconciler.reconciler import JobReconciler
from headrace_scheduler.tables.job_tables import Write
from headrace_scheduler.tables.pending_rows import LOW_WATER, MARKS_EVERY, PendingRows
from headrace_scheduler.tables.refused_jobs import (
    JOBS_MAX,
    LEARN_AFTER,
    LEARN_EVERY,
    LEARN_REST,
    REST_MAX,
    REST_MIN,
    STUCK_AFTER,
    RefusedJobs,
)
from headrace_scheduler.tenants.fair_poll import FairPoll
from headrace_scheduler.tenants.places import BoundedSource, TenantPlaces
from headrace_scheduler.tenants.tenant_limits import TenantRules
from headrace_scheduler.tenants.tenant_queue import QueueName
from headrace_scheduler.work.job_source import JobSource

AN_HOUR_S = 3_600.0
LOCKED = 200
BUCKET = 2
BEHIND_S_MAX = 60.0
TRIES = 10


async def locked_rows(world: World, bucket: int, count: int) -> list[Pending]:
    """What workers of another program have locked for an hour without a trace in the pending rows."""
    at = whole_ms(world.clock() - timedelta(minutes=2))
    rows = [Pending(bucket, at + timedelta(milliseconds=number), uuid4(), "{}") for number in range(count)]
    await asyncio.gather(*(world.tables.pending.add(row) for row in rows))
    await asyncio.gather(*(world.parts.leases.acquire(resource_of(row.job_id), "another", AN_HOUR_S) for row in rows))
    return rows


async def nothing(_payload: object, _context: SourceContext) -> None:
    """A handler that has nothing to do."""


async def completes(world: World, worker: SourceWorker, job_id: UUID) -> None:
    working = asyncio.ensure_future(worker.run())

    async def done() -> bool:
        return await world.status(job_id) == JobStatus.COMPLETED

    try:
        await eventually(done, "the job behind has run", BEHIND_S_MAX)
    finally:
        worker.drain()
        await working


async def test_a_job_runs_behind_hundreds_that_others_have_locked(world: World) -> None:
    await locked_rows(world, BUCKET, LOCKED)
    behind = await world.insert_foreign(BUCKET, world.clock())
    await completes(world, SourceWorker(world.source, nothing, SourceOptions(hold_s=5.0)), behind)


async def test_many_locked_rows_are_learned_at_once(world: World) -> None:
    """A refusal is a conditional write: for thousands they would take tens of seconds."""
    await locked_rows(world, BUCKET, LOCKED)
    behind, refusals = await world.insert_foreign(BUCKET, world.clock()), 0
    while True:
        for candidate in (await world.source.poll(8)).candidates:
            if candidate.key == str(behind):
                assert await world.source.hold(candidate, "one", 5.0) is not None
                return
            assert await world.source.hold(candidate, "one", 5.0) is None
            refusals += 1
        # Whoever is refused each lock meets all two hundred first.
        assert refusals <= LEARN_AFTER + 8


async def test_locks_are_not_read_for_a_few_refusals_nor_all_the_time(embedded: World) -> None:
    clock = embedded.clock
    refused, jobs = RefusedJobs(clock), [uuid4() for _ in range(LEARN_AFTER)]
    for job_id in jobs[1:]:
        refused.note(job_id, AN_HOUR_S)
    assert not refused.should_learn()
    refused.note(jobs[0], AN_HOUR_S)
    assert refused.should_learn()
    # It is being read, or could not be.
    assert not refused.should_learn()
    clock.move(seconds=LEARN_REST.total_seconds() + 1)
    assert refused.should_learn()
    refused.learn([(job_id, AN_HOUR_S) for job_id in jobs])
    for job_id in jobs:
        refused.note(job_id, AN_HOUR_S)
    assert not refused.should_learn()
    clock.move(seconds=LEARN_EVERY.total_seconds())
    assert refused.should_learn()


async def test_what_is_learned_leaves_out_what_is_free(embedded: World) -> None:
    world = embedded
    rows = await locked_rows(world, BUCKET, LEARN_AFTER + 2)
    for row in rows[:LEARN_AFTER]:
        assert await world.source.hold(ItemCandidate(str(row.job_id), row), "one", 5.0) is None
    lease = await world.parts.leases.look(resource_of(rows[-1].job_id))
    assert lease is not None
    assert await world.parts.leases.release(lease.name, lease.fence)
    # The last but one is locked and was never tried.
    assert [each.key for each in (await world.source.poll(8)).candidates] == [str(rows[-1].job_id)]


async def test_a_tenant_with_one_place_is_not_kept_waiting_by_what_others_have_locked(embedded: World) -> None:
    world, name = embedded, QueueName("acme")
    queue = await world.tables.queues.queue(name)
    await locked_rows(world, queue.own_buckets[0], LOCKED)
    behind = Pending(queue.own_buckets[0], whole_ms(world.clock()), uuid4(), "{}")
    await world.tables.pending.add(behind)
    places = TenantPlaces(TenantRules.of("acme:in_progress=1"))
    source = JobSource(world.tables, world.parts.locks, 4, room=places.room)
    worker = SourceWorker(
        BoundedSource(source, world.tables.queues, places), nothing, SourceOptions(hold_s=5.0, poll_s=0.02)
    )
    await completes(world, worker, behind.job_id)


async def test_what_was_refused_is_tried_again_when_its_lock_may_be_free(world: World) -> None:
    (row,) = await locked_rows(world, BUCKET, 1)
    assert await world.hold(row.job_id) is None
    assert await world.candidates() == []
    world.clock.move(seconds=REST_MIN.total_seconds() + 0.1)
    assert [each.key for each in await world.candidates()] == [str(row.job_id)]
    lease = await world.parts.leases.look(resource_of(row.job_id))
    assert lease is not None
    assert await world.parts.leases.release(lease.name, lease.fence)
    assert await world.hold(row.job_id) is not None


async def test_a_lock_that_ends_soon_is_tried_soon(world: World) -> None:
    for _ in range(TRIES):
        row = Pending(BUCKET, whole_ms(world.clock()), uuid4(), "{}")
        await world.tables.pending.add(row)
        await world.parts.leases.acquire(resource_of(row.job_id), "lost", 0.5)
        refused, began = await world.hold(row.job_id) is None, time.monotonic()
        if refused:
            await eventually(lambda row=row: world.hold(row.job_id), "it is held when the lock has passed")
            if time.monotonic() - began < REST_MIN.total_seconds():
                return
        # On a busy machine the lock had passed before it was asked for, or the time of a rest before it was held.
    raise AssertionError("it is never held before the rest of others is over")


async def test_a_row_that_was_written_since_is_not_left_out(embedded: World) -> None:
    """A job that was given back, or failed, by the one who had the lock."""
    (row,) = await locked_rows(embedded, BUCKET, 1)
    assert await embedded.hold(row.job_id) is None
    embedded.clock.move(seconds=1)
    later = Pending(BUCKET, whole_ms(embedded.clock()), row.job_id, "{}")
    await embedded.tables.pending.add(later)
    assert [each.row.scheduled_time for each in await embedded.candidates()] == [later.scheduled_time]


async def test_a_poll_that_was_refused_nothing_reads_each_bucket_once(embedded: World) -> None:
    for _ in range(3):
        await embedded.create()
    await embedded.candidates()
    embedded.recorded.names.clear()
    assert len((await embedded.source.poll(8)).candidates) == 3
    assert embedded.recorded.names.count("pending_due") == 4
    assert "pending_scan" not in embedded.recorded.names


async def test_any_number_of_locked_rows_is_passed_page_by_page(world: World) -> None:
    """Two statements for each poll of the bucket, however many there are."""
    refused = RefusedJobs(world.clock)
    pending = PendingRows(world.recorded, world.clock, page=10, refused=refused)
    at = whole_ms(world.clock() - timedelta(minutes=1))
    # Many of the same moment: only the id tells where to go on.
    rows = [Pending(BUCKET, at + timedelta(milliseconds=number // 30), uuid4(), "{}") for number in range(60)]
    for row in rows:
        await pending.add(row)
        refused.note(row.job_id, AN_HOUR_S)
    behind = Pending(BUCKET, whole_ms(world.clock()), uuid4(), "{}")
    await pending.add(behind)
    polls, seen = 0, list[UUID]()
    for _ in range(2):
        while not (seen := [row.job_id for row in await pending.due(BUCKET, 8)]):
            polls += 1
            assert polls <= 12
        assert seen == [behind.job_id]
    world.recorded.names.clear()
    await pending.due(BUCKET, 8)
    assert [name for name in world.recorded.names if name.startswith("pending")] == ["pending_due", "pending_scan"]


async def test_old_rows_that_are_locked_do_not_hide_old_rows_either(embedded: World) -> None:
    world = embedded
    world.clock.move(days=-40)
    await locked_rows(world, BUCKET, LOCKED)
    behind = await world.insert_foreign(BUCKET, world.clock())
    world.clock.move(days=40)
    await JobReconciler(world.parts).look()
    await completes(world, SourceWorker(world.source, nothing, SourceOptions(hold_s=5.0, poll_s=0.05)), behind)


async def test_a_row_rests_for_its_worker_alone(embedded: World) -> None:
    """Who wants a job to run again, or looks after it, is refused by another who does; that keeps no worker away."""
    job, locks = await embedded.create(), embedded.parts.locks
    leased = await locks.take(job.job_id, "one", AN_HOUR_S)
    assert leased is not None
    assert await locks.take(job.job_id, "two", AN_HOUR_S) is None
    assert await locks.release(job.job_id, leased.lease.fence)
    assert [candidate.key for candidate in await embedded.candidates()] == [str(job.job_id)]


async def test_what_stays_locked_does_not_keep_a_poll_in_the_past(world: World) -> None:
    """Behind it lie the tombstones of whatever has run since. When it comes free, the reconciler's mark leads to it."""
    (row,) = await locked_rows(world, BUCKET, 1)
    for _ in range(20):
        world.clock.move(seconds=REST_MAX.total_seconds())
        for candidate in await world.candidates():
            assert await world.source.hold(candidate, "one", 5.0) is None
    asked: list[object] = []
    inner = world.recorded.inner

    class Noted:
        async def rows(self, name: str, /, **values: object) -> list[tuple[object, ...]]:
            if name == "pending_due" and values["bucket_id"] == BUCKET:
                asked.append(values["after"])
            return await inner.rows(name, **values)

        async def together(self, *writes: Write) -> None:
            await inner.together(*writes)

    world.recorded.inner = Noted()
    assert await world.candidates() == []
    assert asked[0] >= world.clock() - LOW_WATER - timedelta(minutes=1)  # type: ignore[operator]
    lease = await world.parts.leases.look(resource_of(row.job_id))
    assert lease is not None
    assert await world.parts.leases.release(lease.name, lease.fence)
    await JobReconciler(world.parts).look()
    world.clock.move(seconds=REST_MAX.total_seconds() + MARKS_EVERY.total_seconds())
    assert await world.hold(row.job_id) is not None


async def test_a_job_rests_for_a_quarter_of_the_time_it_was_refused(embedded: World) -> None:
    clock = embedded.clock
    refused, row = RefusedJobs(clock), Pending(1, whole_ms(clock()), uuid4())
    rests = []
    for _ in range(12):
        refused.note(row.job_id, AN_HOUR_S)
        assert refused.tried([row], 8) == []
        rested = 0
        while not refused.tried([row], 8):
            clock.move(seconds=1)
            rested += 1
        rests.append(rested)
    assert rests[:4] == [5, 5, 5, 5]
    assert rests == sorted(rests)
    assert rests[-1] <= REST_MAX.total_seconds()
    assert refused.is_stuck(row)
    refused.forget(row.job_id)
    assert refused.tried([row], 8) == [row]


async def test_a_clock_that_is_set_back_lets_nothing_rest_for_longer(embedded: World) -> None:
    clock = embedded.clock
    refused, row = RefusedJobs(clock), Pending(1, whole_ms(clock() - timedelta(days=1)), uuid4())
    refused.note(row.job_id, AN_HOUR_S)
    assert refused.tried([row], 8) == []
    clock.move(hours=-2)
    assert refused.tried([row], 8) == [row]


async def test_neither_what_is_new_nor_what_was_refused_keeps_the_other_waiting(embedded: World) -> None:
    clock = embedded.clock
    refused = RefusedJobs(clock)
    before = [Pending(1, whole_ms(clock()), uuid4()) for _ in range(40)]
    for row in before:
        refused.note(row.job_id, AN_HOUR_S)
    clock.move(seconds=REST_MIN.total_seconds() + 1)
    new = [Pending(1, whole_ms(clock()), uuid4()) for _ in range(40)]
    assert refused.tried([*before, *new], 8) == [*new, *before[:2]]
    assert refused.tried([*before, *new[:3]], 8) == [*new[:3], *before[:5]]
    assert refused.tried(before, 8) == before[:8]


async def test_what_is_remembered_is_bounded(embedded: World) -> None:
    refused = RefusedJobs(embedded.clock)
    at = whole_ms(embedded.clock() - timedelta(seconds=1))
    rows = [Pending(1, at, UUID(int=number)) for number in range(JOBS_MAX + 2)]
    for row in rows:
        refused.note(row.job_id, AN_HOUR_S)
    assert refused.tried(rows, 8) == rows[:2]


async def test_a_job_refused_anew_after_a_while_is_not_stuck(embedded: World) -> None:
    clock = embedded.clock
    refused, row = RefusedJobs(clock), Pending(1, whole_ms(clock()), uuid4())
    refused.note(row.job_id, AN_HOUR_S)
    clock.move(seconds=10 * STUCK_AFTER.total_seconds())
    refused.note(row.job_id, AN_HOUR_S)
    assert not refused.is_stuck(row)


async def test_a_rows_place_in_a_poll_is_kept_from_no_other_bucket(embedded: World) -> None:
    """Rows that rest count for nothing when a poll decides whether it has seen enough."""
    rows = await locked_rows(embedded, 0, 40)
    for row in rows:
        assert await embedded.source.hold(ItemCandidate(str(row.job_id), row), "one", 5.0) is None
    job_id = await embedded.insert_foreign(3, embedded.clock())
    poll = FairPoll(embedded.tables, 4, random.Random(1))
    assert [row.job_id for row in await poll.rows(8)] == [job_id]
