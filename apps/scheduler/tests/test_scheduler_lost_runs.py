"""Runs whose worker was lost: who is suspected, who is charged, and that nothing is counted twice."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from scheduler_losses import expire, lose
from scheduler_world import HOLD_S, World
from waiting import eventually

from headrace.core.claims import CRASHES_MAX
from headrace.core.losses import WORKER_LOST
from headrace.errors import Unreachable
from headrace.ports import Loss
from headrace.sources import ItemState
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import JobStatus, Pending
from headrace_scheduler.reconciler.reconciler import JobReconciler
from headrace_scheduler.work.lost_runs import LOST, SUSPECTED_AFTER


@pytest.fixture
async def reconciler(world: World) -> JobReconciler:
    return JobReconciler(world.parts)


async def test_lost_runs_are_counted_once_whatever_statement_fails(world: World, reconciler: JobReconciler) -> None:
    """The token of a run that was lost alone is kept before the history says that it is over."""
    job = await world.create()
    for _ in range(SUSPECTED_AFTER):
        await lose(world, job.job_id)
        assert await reconciler.look() == 1
    token = await lose(world, job.job_id, alone=True)
    world.recorded.broken |= {name: Unreachable("cut off") for name in ("job_losses", "run_end", "pending_add")}
    assert sum([await reconciler.look() for _ in range(4)]) == 1
    assert not world.recorded.broken
    found = await world.tables.jobs.find(job.job_id)
    assert found is not None
    assert (found.losses.suspect, found.losses.crash_tokens) == (True, {token})


async def test_a_worker_that_dies_once_makes_nobody_a_suspect(world: World, reconciler: JobReconciler) -> None:
    """Its jobs would run one after another, each alone. Two in a row do, unless a run has ended in between."""
    job = await world.create()
    await lose(world, job.job_id)
    assert await reconciler.look() == 1
    held = await world.hold(job.job_id)
    assert held is not None
    assert not held.suspect
    assert await world.source.settle(
        held, world.settlement(ItemState.AGAIN, attempts=1, failure=Loss(0, "RunFailed", "", "no luck", 1))
    )
    world.clock.move(hours=1)
    await lose(world, job.job_id)
    assert await reconciler.look() == 1
    held = await world.hold(job.job_id)
    assert held is not None
    assert not held.suspect
    assert await world.source.give_back(held)
    world.clock.move(seconds=1)
    await lose(world, job.job_id)
    assert await reconciler.look() == 1
    again = await world.hold(job.job_id)
    assert again is not None
    assert again.suspect, "what was given back in between says nothing"


async def test_a_run_that_did_not_begin_makes_nobody_a_suspect(world: World, reconciler: JobReconciler) -> None:
    job = await world.create()
    world.recorded.broken["run_begin"] = Unreachable("cut off")
    with pytest.raises(Unreachable):
        await world.hold(job.job_id, "gone")
    await expire(world, job.job_id)
    assert await reconciler.look() == 1
    again = await world.hold(job.job_id, "next")
    assert again is not None
    assert (again.suspect, again.crashes) == (False, 0)


async def test_a_worker_that_takes_a_lost_run_over_counts_it_as_well(world: World) -> None:
    """Its pending row is there again, so no reconciler was needed."""
    job = await world.create()
    for before in (2, 1):
        await lose(world, job.job_id)
        moment = whole_ms(world.clock() - timedelta(seconds=before))
        await world.tables.pending.add(Pending(job.key.bucket_id, moment, job.job_id, job.payload))
    taken = await world.hold(job.job_id, "next")
    assert taken is not None
    assert (taken.suspect, taken.crashes) == (True, 0)
    assert await world.status(job.job_id) == JobStatus.PENDING, "it waits, whatever the lost worker has left"
    assert await world.source.begin_alone(taken)
    await expire(world, job.job_id)
    later = world.clock() - timedelta(seconds=1)
    await world.tables.pending.add(Pending(job.key.bucket_id, whole_ms(later), job.job_id, job.payload))
    last = await world.hold(job.job_id, "third")
    assert last is not None
    assert (last.suspect, last.crashes) == (True, 1)
    assert [run.status for run in await world.tables.history.runs(job.job_id)] == [LOST, LOST, LOST]


async def test_a_job_that_died_with_its_workers_starts_anew_and_alone(world: World, reconciler: JobReconciler) -> None:
    job = await world.create()
    for alone in (*(False for _ in range(SUSPECTED_AFTER)), *(True for _ in range(CRASHES_MAX))):
        await lose(world, job.job_id, alone=alone)
        assert await reconciler.look() == 1
    held = await world.hold(job.job_id)
    assert held is not None
    assert held.crashes == CRASHES_MAX
    assert await world.source.settle(held, world.settlement(ItemState.DEAD, failure=WORKER_LOST))
    assert await world.status(job.job_id) == JobStatus.DLQ
    buried = {run.fencing_token: run for run in await world.tables.history.runs(job.job_id)}[held.fence]
    assert (buried.status, buried.worker_id) == (JobStatus.FAILED, "one")
    await world.requests.redrive(job.job_id)
    world.clock.move(seconds=1)
    again = await world.hold(job.job_id, "next")
    assert again is not None
    assert (again.suspect, again.crashes) == (True, 0)


async def suspect(world: World, reconciler: JobReconciler) -> UUID:
    """A job whose runs were lost twice."""
    job = await world.create()
    for _ in range(SUSPECTED_AFTER):
        await lose(world, job.job_id)
        assert await reconciler.look() == 1
    return job.job_id


async def test_a_suspect_that_waits_is_pending_and_leaves_no_rows(world: World, reconciler: JobReconciler) -> None:
    job_id = await suspect(world, reconciler)
    before = await world.tables.history.runs(job_id)
    for _ in range(3):
        world.clock.move(seconds=1)
        held = await world.hold(job_id)
        assert held is not None
        assert held.suspect
        assert await world.status(job_id) == JobStatus.PENDING
        assert await world.source.renew(held, HOLD_S)
        assert await world.source.give_back(held)
        assert await world.source.give_back(held), "a repeat is answered as the first"
        assert await world.tables.history.runs(job_id) == before
    world.clock.move(seconds=1)
    held = await world.hold(job_id)
    assert held is not None
    assert await world.source.begin_alone(held)
    assert await world.status(job_id) == JobStatus.RUNNING
    assert (await world.tables.history.runs(job_id))[0].fencing_token == held.fence
    assert await world.source.settle(held, world.settlement())
    assert await world.status(job_id) == JobStatus.COMPLETED
    assert [run.status for run in await world.tables.history.runs(job_id)] == [JobStatus.COMPLETED, LOST, LOST]


async def test_a_suspect_that_was_started_is_so_in_a_repeated_hold(world: World, reconciler: JobReconciler) -> None:
    """An answer was lost, and the hold is asked for again: its run is in the history, and ends there."""
    job_id = await suspect(world, reconciler)
    (candidate,) = await world.candidates()
    first = await world.source.hold(candidate, "one", HOLD_S)
    assert first is not None
    assert await world.source.begin_alone(first)
    again = await world.source.hold(candidate, "one", HOLD_S)
    assert again is not None
    assert again.fence == first.fence
    assert await world.source.give_back(again)
    assert all(run.end_at is not None for run in await world.tables.history.runs(job_id))


async def test_a_suspect_that_was_taken_since_was_not_given_back(world: World, reconciler: JobReconciler) -> None:
    job_id = await suspect(world, reconciler)
    late = await world.hold(job_id)
    assert late is not None
    assert await world.source.give_back(late)
    world.clock.move(seconds=1)
    held = await world.hold(job_id, "next")
    assert held is not None
    assert await world.source.give_back(held)
    assert not await world.source.give_back(late)


async def test_a_suspect_whose_worker_dies_while_it_waits_is_put_back_uncharged(
    world: World, reconciler: JobReconciler
) -> None:
    job_id = await suspect(world, reconciler)
    await lose(world, job_id)
    assert await world.candidates() == []
    assert await reconciler.look() == 1
    held = await world.hold(job_id)
    assert held is not None
    assert (held.suspect, held.crashes) == (True, 0)


async def test_a_suspect_is_cancelled_while_it_waits(world: World, reconciler: JobReconciler) -> None:
    job_id = await suspect(world, reconciler)
    before = await world.tables.history.runs(job_id)
    held = await world.hold(job_id)
    assert held is not None
    await world.requests.cancel(job_id)
    assert not await world.source.renew(held, HOLD_S)
    assert not await world.source.begin_alone(held)
    assert await world.status(job_id) == JobStatus.CANCELLED
    assert await world.tables.history.runs(job_id) == before


async def test_a_suspect_that_is_cancelled_while_it_is_started_leaves_no_open_run(
    world: World, reconciler: JobReconciler
) -> None:
    """An open run would be charged to the job when it runs again."""
    job_id = await suspect(world, reconciler)
    held = await world.hold(job_id)
    assert held is not None
    await world.requests.cancel(job_id)
    world.recorded.names.clear()
    gate = world.recorded.gates["run_begin"] = asyncio.Event()
    beginning = asyncio.ensure_future(world.source.begin_alone(held))
    await eventually(lambda: "run_begin" in world.recorded.names, "it is about to be in the history")
    assert not await world.source.renew(held, HOLD_S)
    gate.set()
    assert not await beginning
    assert await world.status(job_id) == JobStatus.CANCELLED
    assert all(run.end_at is not None for run in await world.tables.history.runs(job_id))
