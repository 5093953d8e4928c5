"""What a crash left half done is put back, and nothing else is touched."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from scheduler_losses import expire, lose
from scheduler_world import HOLD_S, World
from waiting import eventually

from headrace.errors import Unreachable
from headrace.tables import Row
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import JobRun, JobStatus, Pending
from headrace_scheduler.reconciler.purger import START, JobPurger, PurgeLimits
from headrace_scheduler.reconciler.reconciler import YOUNG, JobReconciler
from headrace_scheduler.reconciler.repair import Repairer
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.job_tables import JobTables, Write, micros
from headrace_scheduler.tables.pending_rows import LONG_AGO
from headrace_scheduler.tables.run_history import RunHistory
from headrace_scheduler.work.lost_runs import LOST


@pytest.fixture
async def reconciler(world: World) -> JobReconciler:
    return JobReconciler(world.parts)


def attempts(world: World) -> float | None:
    return world.parts.registry.get_sample_value("lock_acquire_attempt_total")


async def test_a_job_whose_worker_died_waits_again_and_has_spent_nothing(
    world: World, reconciler: JobReconciler
) -> None:
    job = await world.create()
    token = await lose(world, job.job_id)
    assert await world.candidates() == []
    assert await reconciler.look() == 1
    assert await world.status(job.job_id) == JobStatus.PENDING
    (run,) = await world.tables.history.runs(job.job_id)
    assert (run.fencing_token, run.status) == (token, LOST)
    again = await world.hold(job.job_id, "next")
    assert again is not None
    assert (again.attempts, again.fence > token) == (0, True)
    assert await reconciler.look() == 0


async def test_a_job_that_is_held_or_waits_or_has_ended_is_left_alone(world: World, reconciler: JobReconciler) -> None:
    held, waiting, ahead, ended = [await world.create(schedule=word) for word in ("now", "now", "+PT1H", "now")]
    assert await world.hold(held.job_id) is not None
    item = await world.hold(ended.job_id)
    assert item is not None
    assert await world.source.settle(item, world.settlement())
    world.clock.move(seconds=10)
    asked = attempts(world)
    assert await reconciler.look() == 0
    assert attempts(world) == asked, "a lock that is held is not even asked for"
    assert [await world.status(job.job_id) for job in (held, waiting, ahead, ended)] == [
        "running",
        "pending",
        "pending",
        "completed",
    ]


async def test_a_creator_that_was_held_up_makes_no_second_run(world: World, reconciler: JobReconciler) -> None:
    """Its pending row arrives when the reconciler has long put the job back, and it has run."""
    world.recorded.gates["pending_add"] = gate = asyncio.Event()
    creating = asyncio.create_task(world.create())
    await eventually(lambda: "pending_add" in world.recorded.names, "the job has its row, and waits for the other")
    del world.recorded.gates["pending_add"]
    world.clock.move(seconds=YOUNG.total_seconds() + 1)
    assert await reconciler.look() == 1
    (candidate,) = await world.candidates()
    item = await world.source.hold(candidate, "one", HOLD_S)
    assert item is not None
    assert await world.source.settle(item, world.settlement())
    gate.set()
    job = await creating
    (late,) = await world.candidates()
    assert await world.source.hold(late, "two", HOLD_S) is None
    assert await world.status(job.job_id) == JobStatus.COMPLETED
    assert await world.candidates() == [], "the late row is gone"


async def test_an_ended_job_runs_again_by_a_later_row_of_another_program(world: World) -> None:
    job = await world.create()
    item = await world.hold(job.job_id)
    assert item is not None
    assert await world.source.settle(item, world.settlement())
    await world.tables.pending.add(Pending(job.key.bucket_id, whole_ms(world.clock()), job.job_id, "{}"))
    assert await world.hold(job.job_id) is not None


async def test_a_row_that_is_running_without_any_lock_is_put_back(world: World, reconciler: JobReconciler) -> None:
    """As a foreign worker leaves it that deletes its lock and dies."""
    job_id = await world.insert_foreign(2, world.clock() - timedelta(hours=1))
    (pending,) = [row async for page in world.tables.pending.pages(2, world.clock()) for row in page]
    await world.tables.pending.remove(pending)
    world.clock.move(seconds=10)
    assert await reconciler.look() == 1
    assert await world.hold(job_id) is not None


async def test_a_run_that_had_ended_well_is_not_run_again(world: World, reconciler: JobReconciler) -> None:
    job = await world.create()
    item = await world.hold(job.job_id, "gone")
    assert item is not None
    await world.recorded.together(world.tables.history.ended(item.row.run, world.clock(), "completed"))
    await expire(world, job.job_id)
    assert await reconciler.look() == 1
    assert await world.status(job.job_id) == JobStatus.COMPLETED


@pytest.mark.parametrize("by", ["the same", "another"])
@pytest.mark.parametrize(("end", "becomes"), [("completed", JobStatus.COMPLETED), ("failed", JobStatus.PENDING)])
async def test_how_a_lost_run_had_ended_is_known_until_it_is_written(
    end: str, becomes: str, by: str, world: World
) -> None:
    """Also to whoever goes on with a job that could not be put right at the first try."""
    job = await world.create()
    item = await world.hold(job.job_id, "gone")
    assert item is not None
    await world.recorded.together(world.tables.history.ended(item.row.run, world.clock(), end))
    await expire(world, job.job_id)
    repairer = Repairer(world.parts, "first")
    world.recorded.broken["job_status"] = Unreachable("the bucket cannot be written")
    with pytest.raises(Unreachable):
        await repairer.repair(job.key)
    if by == "another":
        await expire(world, job.job_id)
        repairer = Repairer(world.parts, "second")
    assert await repairer.repair(job.key) == becomes
    found = await world.tables.jobs.find(job.job_id)
    assert found is not None
    assert (found.status, found.attempts) == (becomes, int(end == "failed"))


async def test_an_earlier_run_that_had_ended_well_says_nothing_of_this_one(
    world: World, reconciler: JobReconciler
) -> None:
    job = await world.create()
    first = await world.hold(job.job_id)
    assert first is not None
    assert await world.source.settle(first, world.settlement())
    await world.requests.run_again(job.job_id)
    world.clock.move(seconds=1)
    # It dies before its own row in the history is written.
    world.recorded.broken["run_begin"] = Unreachable("cut off")
    with pytest.raises(Unreachable):
        await world.hold(job.job_id, "gone")
    await expire(world, job.job_id)
    assert await reconciler.look() == 1
    assert await world.status(job.job_id) == JobStatus.PENDING


@pytest.mark.parametrize(("spent", "becomes"), [(0, JobStatus.PENDING), (4, JobStatus.DLQ)])
async def test_a_run_that_had_failed_is_counted_and_retried_or_buried(
    spent: int, becomes: str, world: World, reconciler: JobReconciler
) -> None:
    job = await world.create()
    item = await world.hold(job.job_id, "gone")
    assert item is not None
    await world.tables.jobs.write_status(item.row.job, JobStatus.RUNNING, spent)
    await world.recorded.together(world.tables.history.ended(item.row.run, world.clock(), "failed"))
    await expire(world, job.job_id)
    assert await reconciler.look() == 1
    found = await world.tables.jobs.find(job.job_id)
    assert found is not None
    assert (found.status, found.attempts) == (becomes, spent + 1)
    dead = await world.tables.dead.find(job.job_id)
    assert (dead is not None and dead.attempts == 5) == (becomes == JobStatus.DLQ)


async def test_rows_dated_long_ago_are_shown_to_workers(world: World, reconciler: JobReconciler) -> None:
    old = {await world.insert_foreign(1, world.clock() - timedelta(days=days)) for days in (1, 400)}
    assert await world.candidates() == []
    world.clock.move(seconds=6)
    assert await reconciler.look() == 0
    assert {UUID(each.key) for each in await world.candidates()} == old


async def test_what_has_ended_is_not_read_again_by_the_next_pass(embedded: World) -> None:
    reconciler = JobReconciler(embedded.parts)
    for _ in range(3):
        job = await embedded.create(schedule="2020-01-01T00:00:00Z")
        await embedded.tables.jobs.write_status(job, JobStatus.COMPLETED, 0)
    await reconciler.look()
    embedded.recorded.names.clear()
    await reconciler.look()
    assert embedded.recorded.names.count("job_scan") == 4


async def test_a_lost_lock_tells_of_a_job_that_had_ended_and_was_run_again(
    world: World, reconciler: JobReconciler
) -> None:
    """Its row lies among those that the next passes leave out."""
    job = await world.create(schedule="2020-01-01T00:00:00Z")
    await world.tables.jobs.write_status(job, JobStatus.COMPLETED, 0)
    await world.tables.pending.remove(Pending(job.key.bucket_id, job.key.scheduled_time, job.job_id))
    assert await reconciler.look() == 0
    await world.requests.run_again(job.job_id)
    world.clock.move(seconds=1)
    await lose(world, job.job_id)

    async def put_back() -> bool:
        return bool(await reconciler.look())

    await eventually(put_back, "the job was put back")
    assert await world.status(job.job_id) == JobStatus.PENDING


async def test_a_lock_left_behind_by_a_job_that_has_ended_is_let_go(world: World, reconciler: JobReconciler) -> None:
    job = await world.create()
    item = await world.hold(job.job_id, "gone")
    assert item is not None
    await world.tables.jobs.write_status(item.row.job, JobStatus.COMPLETED, 0)
    await expire(world, job.job_id)
    assert await reconciler.look() == 0
    assert str(job.job_id) not in str([lease.name async for lease in world.parts.leases.leases()])


async def test_a_row_between_two_statements_of_its_writer_is_left_alone(
    world: World, reconciler: JobReconciler
) -> None:
    job = await world.create()
    (candidate,) = await world.candidates()
    await world.tables.pending.remove(candidate.row)
    assert await reconciler.look() == 0
    world.clock.move(seconds=YOUNG.total_seconds() + 1)
    reconciler = JobReconciler(world.parts)
    assert await reconciler.look() == 1, job


async def test_a_retry_that_a_foreign_worker_wrote_under_its_own_time_is_not_doubled(
    world: World, reconciler: JobReconciler
) -> None:
    job = await world.create()
    (candidate,) = await world.candidates()
    await world.tables.jobs.write_status(job, JobStatus.FAILED, 1)
    await world.tables.pending.add(
        Pending(job.key.bucket_id, job.key.scheduled_time + timedelta(hours=-1), job.job_id, "{}")
    )
    await world.tables.pending.remove(candidate.row)
    world.clock.move(seconds=10)
    assert await reconciler.look() == 0
    assert len(await world.candidates()) == 1


async def test_a_row_dated_ahead_is_put_back_all_the_same(world: World, reconciler: JobReconciler) -> None:
    """Its writer's clock is an hour ahead, and it died before it had written the pending row."""
    job_id = await world.insert_foreign(1, world.clock(), written=world.clock() + timedelta(hours=1))
    await world.tables.pending.remove(
        Pending(1, (await world.candidates())[0].row.scheduled_time, job_id, written_us=micros(world.clock()) * 2)
    )
    assert await world.candidates() == []
    assert await reconciler.look() == 1
    assert await world.hold(job_id) is not None


async def test_a_run_that_had_ended_is_found_among_many(embedded: World) -> None:
    """An outage leaves a run every few seconds; their ids have no order."""
    world = embedded
    few = RunHistory(world.recorded, page=3)
    job = await world.create()
    for number in range(8):
        started_at = world.clock() - timedelta(hours=1)
        run = JobRun(job.job_id, UUID(int=number + 1), "earlier", number - 100, started_at)
        await world.recorded.together(few.begun(run))
    item = await world.hold(job.job_id)
    assert item is not None
    runs = await few.runs(job.job_id)
    assert len(runs) == 9
    assert runs[0].fencing_token == item.fence


class UnreadBuckets:
    """Tables in which some buckets cannot be scanned."""

    def __init__(self, inner: JobTables, *buckets: int) -> None:
        self._inner, self._buckets = inner, buckets
        # From where the others were scanned.
        self.asked: list[datetime] = []

    async def rows(self, name: str, /, **values: Any) -> list[Row]:
        if name == "job_scan" and values["bucket_id"] in self._buckets:
            raise Unreachable("too many tombstones")
        if name == "job_scan":
            self.asked.append(values["after_time"])
        return await self._inner.rows(name, **values)

    async def together(self, *writes: Write) -> None:
        await self._inner.together(*writes)


async def test_a_bucket_that_cannot_be_read_keeps_no_other_from_it(embedded: World) -> None:
    world = embedded
    lost = [await world.insert_foreign(bucket, world.clock()) for bucket in range(4)]
    for candidate in await world.candidates():
        await world.tables.pending.remove(candidate.row)
    world.clock.move(seconds=YOUNG.total_seconds() + 1)
    unread = AllTables.on(UnreadBuckets(world.recorded, 0, 2), world.clock)
    reconciler = JobReconciler(replace(world.parts, tables=unread))
    for _ in range(4):
        with suppress(Unreachable):
            await reconciler.look()
    waiting = {candidate.key for candidate in await world.candidates()}
    assert waiting == {str(lost[1]), str(lost[3])}


async def test_what_has_ended_is_purged_beside_a_bucket_that_cannot_be_read(embedded: World) -> None:
    world = embedded
    world.clock.move(days=-40)
    job_id = await world.insert_foreign(0, world.clock())
    item = await world.hold(job_id)
    assert item is not None
    assert await world.source.settle(item, world.settlement())
    world.clock.move(days=40)
    unread = AllTables.on(UnreadBuckets(world.recorded, 3), world.clock)
    stop = asyncio.Event()
    running = asyncio.ensure_future(JobReconciler(replace(world.parts, tables=unread)).run(stop))

    async def purged() -> bool:
        return await world.tables.jobs.find(job_id) is None

    await eventually(purged, "its days are over")
    stop.set()
    await running


async def test_a_bucket_that_cannot_be_read_lets_nobody_read_the_others_from_their_beginning(embedded: World) -> None:
    tables = UnreadBuckets(embedded.recorded, 3)
    reconciler = JobReconciler(replace(embedded.parts, tables=AllTables.on(tables, embedded.clock)))
    for _ in range(2):
        with pytest.raises(Unreachable):
            await reconciler.look()
    assert [after.year == LONG_AGO.year for after in tables.asked] == [True] * 3 + [False] * 3


async def test_a_job_that_is_deleted_while_it_is_judged_does_not_come_back(embedded: World) -> None:
    world = embedded
    job = await world.create()
    for candidate in await world.candidates():
        await world.tables.pending.remove(candidate.row)
    world.clock.move(seconds=YOUNG.total_seconds() + 1)
    world.recorded.gates["job_where"] = gate = asyncio.Event()
    looking = asyncio.ensure_future(JobReconciler(world.parts).look())
    await eventually(lambda: "job_where" in world.recorded.names, "it is about to judge")
    behind = AllTables.on(world.recorded.inner, world.clock)
    await behind.jobs.write_status(job, JobStatus.COMPLETED, 0)
    limit = world.clock() + timedelta(days=1)
    purger = JobPurger(behind, world.parts.locks, 5.0)
    assert (await purger.page(job.key.bucket_id, START, PurgeLimits(limit, limit))).purged == 1
    gate.set()
    assert await looking == 0
    assert await world.rows() == []
    assert await world.candidates() == []


@pytest.mark.parametrize("odd", [{"written_us": 2**63 - 1}, {"payload": "[" * 100_000}])
async def test_a_row_that_cannot_be_put_right_keeps_no_other_from_it(odd: dict[str, Any], world: World) -> None:
    """No status can be written above the last write time there is; and a payload that is nested too deep is one."""
    at = whole_ms(world.clock() - timedelta(minutes=2))
    row = {"bucket_id": 0, "scheduled_time": at, "job_id": uuid4(), "payload": "{}", "written_us": 1}
    await world.recorded.inner.rows("job_add", **{**row, **odd}, status=JobStatus.RUNNING)
    lost = await world.insert_foreign(0, world.clock())
    for candidate in await world.candidates():
        await world.tables.pending.remove(candidate.row)
    world.clock.move(seconds=YOUNG.total_seconds() + 1)
    await JobReconciler(world.parts).look()
    waiting = {candidate.key for candidate in await world.candidates()}
    assert waiting == ({str(lost)} if "written_us" in odd else {str(lost), str(row["job_id"])})


async def test_a_job_that_was_enqueued_since_it_was_looked_for_keeps_its_lock_free(
    world: World, reconciler: JobReconciler
) -> None:
    job = await world.create()
    world.clock.move(seconds=60)
    item = await world.hold(job.job_id)
    assert item is not None
    world.recorded.gates["job_scan"] = gate = asyncio.Event()
    looking = asyncio.ensure_future(reconciler.look())
    await eventually(lambda: "job_scan" in world.recorded.names, "pending rows were read")
    assert await world.source.give_back(item)
    asked = attempts(world)
    gate.set()
    assert await looking == 0
    assert attempts(world) == asked
