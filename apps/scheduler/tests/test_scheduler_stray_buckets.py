"""Rows that another program writes into buckets which neither the installation nor a queue has: run, listed, purged."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

from scheduler_losses import run_out
from scheduler_world import HOLD_S, STRAYS, World

from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import JobStatus, Pending
from headrace_scheduler.reconciler.reconciler import YOUNG, JobReconciler
from headrace_scheduler.reconciler.stray_buckets import TOMBSTONES_KEPT, StrayBuckets
from headrace_scheduler.tables.job_list import JobList, JobQuestion
from headrace_scheduler.tables.pending_rows import LONG_AGO, MARKS_EVERY
from headrace_scheduler.tables.used_buckets import PAGE
from headrace_scheduler.tenants.tenant_queue import DEFAULT_TENANT, JobPriority, QueueName

LATER_S = MARKS_EVERY.total_seconds() + 1
*STRAYS_WITH_JOBS, ALONE = STRAYS


async def run(world: World, key: str) -> None:
    (candidate,) = [each for each in await world.candidates() if each.key == key]
    item = await world.source.hold(candidate, "one", HOLD_S)
    assert item is not None
    assert await world.source.settle(item, world.settlement())


async def test_rows_in_any_bucket_are_run_like_ours(world: World) -> None:
    at = world.clock()
    found = {
        await world.insert_foreign(bucket, at - timedelta(days=day)) for bucket in STRAYS_WITH_JOBS for day in (0, 40)
    }
    alone = Pending(ALONE, whole_ms(at), uuid4(), "{}")
    await world.tables.pending.add(alone)
    assert await world.candidates() == []
    await JobReconciler(world.parts).look()
    world.clock.move(seconds=LATER_S)
    keys = {str(job_id) for job_id in (*found, alone.job_id)}
    assert {each.key for each in await world.candidates()} == keys
    for key in keys:
        await run(world, key)
    assert await world.candidates() == []
    for job_id in found:
        assert await world.status(job_id) == JobStatus.COMPLETED


async def test_a_run_that_is_lost_in_any_bucket_is_put_back(embedded: World) -> None:
    job_id = await embedded.insert_foreign(99, embedded.clock())
    await JobReconciler(embedded.parts).look()
    embedded.clock.move(seconds=LATER_S)
    assert await embedded.hold(job_id, "gone") is not None
    await run_out(embedded, job_id)
    embedded.clock.move(seconds=YOUNG.total_seconds() + 1)
    assert await JobReconciler(embedded.parts).look() == 1
    embedded.clock.move(seconds=LATER_S)
    await JobReconciler(embedded.parts).look()
    embedded.clock.move(seconds=LATER_S)
    await run(embedded, str(job_id))


async def listed(world: World, tenant: str) -> set[UUID]:
    question = JobQuestion(LONG_AGO, world.clock() + timedelta(hours=1), tenant=tenant)
    rows, more = await JobList(world.tables, world.parts.installation.polled).page(question, 100)
    assert more is None
    return {row.key.job_id for row in rows}


async def test_jobs_in_any_bucket_are_listed_as_the_default_tenants(world: World) -> None:
    found = {await world.insert_foreign(bucket, world.clock()) for bucket in (1, *STRAYS)}
    assert await listed(world, "") == found
    assert await listed(world, DEFAULT_TENANT) == found
    assert await listed(world, f"t-{uuid4()}") == set()


async def test_a_tenants_jobs_are_never_listed_as_strays(world: World) -> None:
    """A process that has read the queues before another one made this is asked for the default tenant's jobs."""
    tenant = f"t-{uuid4()}"
    for priority in JobPriority:
        await world.tables.queues.queue(QueueName(priority=priority))
    await world.tables.queues.others()
    other = type(world.tables).on(world.recorded, world.clock)
    queue = await other.queues.queue(QueueName(tenant))
    job_id = await world.insert_foreign(queue.own_buckets[0], world.clock())
    assert await listed(world, DEFAULT_TENANT) == set()
    assert await listed(world, tenant) == {job_id}


async def test_idle_tenants_cost_no_look_for_strays_and_hide_none(embedded: World) -> None:
    """A statement for each partition with tombstones; the buckets of a queue that was idle for long have none."""
    polled = embedded.parts.installation.polled
    busy, *idle = [await embedded.tables.queues.queue(QueueName(f"t-{number}")) for number in range(6)]
    for queue in (busy, *idle):
        for bucket in queue.own_buckets:
            await embedded.insert_foreign(bucket, embedded.clock())
    embedded.clock.move(seconds=TOMBSTONES_KEPT.total_seconds() + 60)
    await embedded.tables.pending.add(Pending(busy.own_buckets[0], whole_ms(embedded.clock()), uuid4(), "{}"))
    stray = max(bucket for queue in idle for bucket in queue.own_buckets) + 4
    await embedded.tables.pending.add(Pending(stray, whole_ms(embedded.clock()), uuid4(), "{}"))
    embedded.recorded.names.clear()
    assert await StrayBuckets(embedded.tables, polled).buckets() == {stray}
    assert embedded.recorded.names.count("pending_buckets") == len(busy.own_buckets) + 1


async def test_a_gap_of_more_strays_than_a_page_is_read_to_its_end(embedded: World) -> None:
    found = set(range(50_000, 50_000 + PAGE + 20))
    for bucket in found:
        await embedded.tables.pending.add(Pending(bucket, whole_ms(embedded.clock()), uuid4(), "{}"))
    assert await StrayBuckets(embedded.tables, embedded.parts.installation.polled).buckets() == found
