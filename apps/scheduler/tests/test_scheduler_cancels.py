"""Cancels that meet a lock of somebody else, and those that come too late."""

from __future__ import annotations

from uuid import uuid4

import pytest
from scheduler_losses import expire
from scheduler_world import World

from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import JobRun, JobStatus, Pending
from headrace_scheduler.reconciler.reconciler import JobReconciler


@pytest.mark.parametrize("begun", [False, True])
async def test_a_job_that_was_cancelled_while_its_lock_was_held_is_not_run(begun: bool, world: World) -> None:
    """By somebody who did not run it, or who was lost in a run and left its row."""
    job = await world.create()
    leased = await world.parts.locks.take(job.job_id, "another", 30.0)
    assert leased is not None
    if begun:
        await world.tables.jobs.write_status(job.under(leased.lease.fence), JobStatus.RUNNING, 0)
        run = JobRun(job.job_id, uuid4(), "another", leased.lease.fence, world.clock())
        await world.recorded.together(world.tables.history.begun(run))
    await world.requests.cancel(job.job_id)
    assert await world.parts.locks.release(job.job_id, leased.lease.fence)
    assert await world.hold(job.job_id) is None
    assert await world.status(job.job_id) == JobStatus.CANCELLED
    assert await world.parts.locks.take(job.job_id, "others", 30.0) is not None, "the lock is let go"
    assert await world.candidates() == []
    assert all(run.end_at is not None for run in await world.tables.history.runs(job.job_id))


async def test_a_cancel_does_not_hide_that_a_lost_run_had_ended_well(world: World) -> None:
    """Whoever takes the lock of a lost run over takes with it which run that was."""
    job = await world.create()
    item = await world.hold(job.job_id, "gone")
    assert item is not None
    await world.recorded.together(world.tables.history.ended(item.row.run, world.clock(), JobStatus.COMPLETED))
    await expire(world, job.job_id)
    await world.requests.cancel(job.job_id)
    assert await JobReconciler(world.parts).look() == 1
    assert await world.status(job.job_id) == JobStatus.COMPLETED


@pytest.mark.parametrize("by", ["request", "row"])
async def test_a_cancel_that_came_too_late_is_none_of_the_next_run(by: str, world: World) -> None:
    """Also if whoever asked for it had a clock that was ahead."""
    job = await world.create()
    item = await world.hold(job.job_id)
    assert item is not None
    world.clock.move(seconds=2)
    await world.requests.cancel(job.job_id)
    world.clock.move(seconds=-1.9)
    assert await world.source.settle(item, world.settlement())
    ended = await world.tables.jobs.find(job.job_id)
    assert ended is not None
    assert ended.status == JobStatus.COMPLETED
    if by == "request":
        await world.requests.run_again(job.job_id)
    else:
        row = Pending(job.key.bucket_id, whole_ms(world.clock()), job.job_id, "{}", ended.status_us + 1)
        await world.tables.pending.add(row)
    world.clock.move(seconds=0.1)
    again = await world.hold(job.job_id)
    assert again is not None
    assert await world.source.renew(again, 5.0)
