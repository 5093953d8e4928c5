"""One run of a job over the tables: its order, its ends, and what happens when it is not alone."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from uuid import UUID

import pytest
from scheduler_losses import is_free, run_out
from scheduler_world import HOLD_S, World
from waiting import eventually

from headrace.core.claims import Loss
from headrace.errors import Unknown, Unreachable
from headrace.sources import HeldItem, ItemCandidate, ItemState, SourceContext, SourceOptions, SourceWorker
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import JobStatus, JobTerms, Pending
from headrace_scheduler.reconciler.reconciler import JobReconciler
from headrace_scheduler.work.callbacks import CALL_S_MAX
from headrace_scheduler.work.cancel_watch import CancelWatch

FAILURE = Loss(0, "RunFailed", error="RunFailed: no luck\n  file.py:1 in run", traceback="Traceback …")


async def held(world: World, job_id: UUID, holder: str = "one", hold_s: float = HOLD_S) -> HeldItem:
    found = await world.hold(job_id, holder, hold_s)
    assert found is not None
    return found


async def test_a_run_goes_by_the_order_of_the_specification(world: World) -> None:
    job = await world.create({"type": "sleep", "seconds": 0}, terms=JobTerms(7.5))
    (candidate,) = await world.candidates()
    world.recorded.written()
    item = await world.source.hold(candidate, "worker-1", HOLD_S)
    assert item is not None
    assert sorted(world.recorded.written()) == ["job_status", "pending_delete", "run_begin"], "they go together"
    assert (item.key, item.payload, item.attempts, item.timeout_s) == (str(job.job_id), job.payload, 0, 7.5)
    assert await world.status(job.job_id) == JobStatus.RUNNING
    world.recorded.written()
    assert await world.source.settle(item, world.settlement(result={"ok": 1}))
    assert world.recorded.written() == ["run_end", "job_status"]
    assert await world.status(job.job_id) == JobStatus.COMPLETED
    assert await is_free(world, job.job_id)
    (run,) = await world.tables.history.runs(job.job_id)
    assert (run.worker_id, run.fencing_token, run.status) == ("worker-1", item.fence, "completed")
    assert run.end_at is not None
    assert (await world.tables.jobs.outcome(job.job_id)).result == '{"ok": 1}'
    assert await world.candidates() == []


async def test_a_stale_page_runs_nothing_twice(world: World) -> None:
    job = await world.create()
    (stale,) = await world.candidates()
    assert await world.source.settle(await held(world, job.job_id), world.settlement())
    assert await world.source.hold(stale, "late", HOLD_S) is None
    assert await is_free(world, job.job_id)
    assert len(await world.tables.history.runs(job.job_id)) == 1


async def test_a_job_that_is_held_is_left_to_its_holder(world: World) -> None:
    job = await world.create()
    (candidate,) = await world.candidates()
    await world.parts.locks.take(job.job_id, "one", HOLD_S)
    world.recorded.written()
    assert await world.source.hold(candidate, "two", HOLD_S) is None
    assert world.recorded.written() == []


async def test_a_foreign_row_is_run_and_known_once_it_was_seen(world: World) -> None:
    job_id = await world.insert_foreign(3, world.clock() - timedelta(minutes=2), '{"type": "sleep", "seconds": 0}')
    assert await world.tables.jobs.find(job_id) is None
    item = await held(world, job_id)
    assert item.payload == '{"type": "sleep", "seconds": 0}'
    assert await world.source.settle(item, world.settlement())
    assert await world.status(job_id) == JobStatus.COMPLETED


async def test_a_pending_row_alone_is_a_job(world: World) -> None:
    job_id = UUID(int=77)
    await world.tables.pending.add(Pending(1, world.clock().replace(microsecond=0), job_id, "{}"))
    assert await world.source.settle(await held(world, job_id), world.settlement())
    assert await world.status(job_id) == JobStatus.COMPLETED


async def test_a_failed_run_waits_under_a_new_time_and_spends_an_attempt(world: World) -> None:
    job = await world.create()
    item = await held(world, job.job_id)
    again = world.settlement(ItemState.AGAIN, attempts=1, delay_s=60.0, failure=FAILURE)
    world.recorded.written()
    assert await world.source.settle(item, again)
    assert world.recorded.written() == ["run_end", "job_status", "pending_add", "job_status"]
    found = await world.tables.jobs.find(job.job_id)
    assert found is not None
    assert (found.status, found.attempts, found.key) == (JobStatus.PENDING, 1, job.key)
    assert await world.candidates() == []
    world.clock.move(seconds=61)
    (candidate,) = await world.candidates()
    assert candidate.row.scheduled_time > job.key.scheduled_time
    second = await world.source.hold(candidate, "two", HOLD_S)
    assert second is not None
    assert second.fence > item.fence
    assert second.attempts == 1


async def test_a_retry_in_the_same_moment_still_has_a_new_time(world: World) -> None:
    """A tombstone would hide a row under the old one."""
    job = await world.create(schedule="2030-01-01T00:00:00Z")
    row = Pending(job.key.bucket_id, job.key.scheduled_time, job.job_id)
    item = await world.source.hold(ItemCandidate(str(job.job_id), row), "one", HOLD_S)
    assert item is not None
    assert await world.source.give_back(item)
    outcome = await world.tables.jobs.outcome(job.job_id)
    assert outcome.pending_time is not None
    assert outcome.pending_time > job.key.scheduled_time


async def test_the_last_failure_is_a_row_in_the_dead_letter_table(world: World) -> None:
    job = await world.create({"type": "fail"}, terms=JobTerms(None, None, "trace-1"))
    item = await held(world, job.job_id)
    world.recorded.written()
    assert await world.source.settle(item, world.settlement(ItemState.DEAD, attempts=5, failure=FAILURE))
    assert world.recorded.written() == ["run_end", "job_status", "dead_add", "job_status"]
    dead = await world.tables.dead.find(job.job_id)
    assert dead is not None
    assert (dead.attempts, dead.last_error, dead.error_class) == (5, "RunFailed: no luck", "RunFailed")
    assert (dead.payload, dead.stack, dead.correlation_id) == (job.payload, "Traceback …", "trace-1")
    assert await world.status(job.job_id) == JobStatus.DLQ


async def test_whoever_lost_the_lock_writes_nothing(world: World) -> None:
    job = await world.create()
    item = await held(world, job.job_id)
    await run_out(world, job.job_id)
    assert await world.parts.locks.take(job.job_id, "two", HOLD_S)
    world.recorded.written()
    assert not await world.source.renew(item, HOLD_S)
    assert not await world.source.settle(item, world.settlement())
    assert not await world.source.give_back(item)
    assert not await world.source.report(item, {"done": 1})
    assert world.recorded.written() == []
    assert await world.status(job.job_id) == JobStatus.RUNNING


async def test_a_settlement_may_be_repeated_until_somebody_else_has_run_the_job(world: World) -> None:
    job = await world.create()
    item, done = await held(world, job.job_id), world.settlement()
    world.recorded.broken["job_status"] = Unreachable("cut off")
    with pytest.raises(Unreachable):
        await world.source.settle(item, done)
    assert await world.source.settle(item, done)
    assert await world.source.settle(item, done)
    await world.requests.run_again(job.job_id)
    world.clock.move(seconds=1)
    await held(world, job.job_id, "two")
    assert not await world.source.settle(item, done)


async def test_a_hold_that_was_cut_off_is_taken_up_again(world: World) -> None:
    job = await world.create()
    (candidate,) = await world.candidates()
    for name in ("job_status", "run_begin"):
        world.recorded.broken[name] = Unreachable("cut off")
        with pytest.raises(Unreachable):
            await world.source.hold(candidate, "one", HOLD_S)
    item = await world.source.hold(candidate, "one", HOLD_S)
    assert item is not None
    assert await world.status(job.job_id) == JobStatus.RUNNING
    assert [run.fencing_token for run in await world.tables.history.runs(job.job_id)] == [item.fence]
    assert await world.source.settle(item, world.settlement())


async def test_a_job_that_was_given_back_waits_at_once_and_has_spent_nothing(world: World) -> None:
    job = await world.create()
    item = await held(world, job.job_id)
    assert await world.source.give_back(item)
    assert await world.source.give_back(item)
    world.clock.move(seconds=1)
    second = await held(world, job.job_id, "two")
    assert second.attempts == 0


async def test_progress_is_kept_while_the_lock_is_held(world: World) -> None:
    job = await world.create()
    assert await world.source.report(await held(world, job.job_id), {"done": 3})
    assert (await world.tables.jobs.outcome(job.job_id)).progress == '{"done": 3}'


async def test_a_running_job_that_was_cancelled_ends_at_its_next_renewal(world: World) -> None:
    job = await world.create()
    item = await held(world, job.job_id)
    assert await world.source.renew(item, HOLD_S)
    await world.requests.cancel(job.job_id)
    assert await world.status(job.job_id) == JobStatus.RUNNING
    assert not await world.source.renew(item, HOLD_S)
    assert await world.status(job.job_id) == JobStatus.CANCELLED
    assert not await world.source.settle(item, world.settlement())
    assert await is_free(world, job.job_id)
    assert [run.status for run in await world.tables.history.runs(job.job_id)] == ["cancelled"]


async def test_a_running_job_ends_soon_after_its_cancel(world: World) -> None:
    """Long before its next renewal, which would come after minutes, by one read for all jobs of a worker."""
    started, ended = asyncio.Event(), asyncio.Event()

    async def wait(_payload: object, _context: SourceContext) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    jobs = [await world.create() for _ in range(3)]
    worker = SourceWorker(world.source, wait, SourceOptions(poll_s=0.05, hold_s=600.0, drain_s=0.0))
    working = asyncio.ensure_future(worker.run())
    watch = CancelWatch(world.tables, worker)
    try:
        await eventually(lambda: len([name for name in world.recorded.names if name == "run_begin"]) == 3, "all run")
        await started.wait()
        await world.requests.cancel(jobs[0].job_id)
        world.recorded.names.clear()
        await watch.look()
        async with asyncio.timeout(60.0):
            await ended.wait()
        await eventually(lambda: worker.in_progress == 2, "the others go on")
        await watch.look()
        assert [name for name in world.recorded.names if name == "cancel_requests"] == ["cancel_requests"] * 2
        assert world.recorded.names.count("job_outcome") == 1, "nobody else was renewed, and nobody twice"
        assert await world.status(jobs[0].job_id) == JobStatus.CANCELLED
    finally:
        worker.drain()
        await working


async def test_asked_cancels_are_forgotten(world: World) -> None:
    first, second = await world.create(), await world.create()
    await world.tables.cancels.add(first.job_id, world.clock())
    assert first.job_id in {job_id for _, job_id in await world.tables.cancels.latest(world.clock())}
    world.clock.move(minutes=2)
    await world.tables.cancels.add(second.job_id, world.clock())
    world.clock.move(minutes=-2)
    assert {job_id for _, job_id in await world.tables.cancels.latest(world.clock())} == {second.job_id}


async def test_workers_see_different_jobs_first(embedded: World) -> None:
    for _ in range(12):
        await embedded.create()
    orders = {tuple(each.key for each in (await embedded.source.poll(3)).candidates) for _ in range(8)}
    assert len(orders) > 1


async def test_a_cancel_that_is_seen_while_the_run_is_settled_comes_too_late(embedded: World) -> None:
    job = await embedded.create()
    item = await held(embedded, job.job_id)
    await embedded.requests.cancel(job.job_id)
    gate = embedded.recorded.gates["run_end"] = asyncio.Event()
    settling = asyncio.ensure_future(embedded.source.settle(item, embedded.settlement()))
    await eventually(lambda: "run_end" in embedded.recorded.names, "the settlement has begun")
    # Without the guard it would wait at the gate itself.
    async with asyncio.timeout(20):
        assert await embedded.source.renew(item, HOLD_S)
    gate.set()
    assert await settling
    assert await embedded.status(job.job_id) == JobStatus.COMPLETED


@pytest.mark.parametrize(("state", "end"), [(ItemState.DONE, "completed"), (ItemState.DEAD, "dlq")])
async def test_the_end_of_a_job_is_told_by_a_job(state: ItemState, end: str, world: World) -> None:
    job = await world.create(terms=JobTerms(None, "http://127.0.0.1:9/told", "trace-1"))
    item = await held(world, job.job_id)
    failure = None if state is ItemState.DONE else FAILURE
    settlement = world.settlement(state, attempts=5, failure=failure, result={"sum": 3})
    assert await world.source.settle(item, settlement)
    world.clock.move(seconds=1)
    (call,) = await world.candidates()
    told = await world.source.hold(call, "two", HOLD_S)
    assert told is not None
    payload = json.loads(told.payload)
    assert (payload["type"], payload["url"]) == ("http", "http://127.0.0.1:9/told")
    assert (payload["body"]["job_id"], payload["body"]["status"]) == (str(job.job_id), end)
    assert payload["body"].get("result", payload["body"].get("error")) in ({"sum": 3}, "RunFailed: no luck")
    # It is a job with a row, a time and the trace of what it tells of, not only a row that waits.
    assert (told.timeout_s, told.row.job.terms.correlation_id) == (CALL_S_MAX, "trace-1")


async def test_a_cancelled_job_is_run_by_no_row_that_is_left_or_comes(embedded: World) -> None:
    """Neither by its own, if the one who cancelled it died before that was gone, nor by another program's."""
    world = embedded
    job = await world.create()
    world.recorded.broken["pending_delete"] = Unreachable("cut off")
    with pytest.raises(Unreachable):
        await world.requests.cancel(job.job_id)
    await world.tables.pending.add(Pending(2, whole_ms(world.clock()), job.job_id, "{}"))
    found = await world.candidates()
    assert len(found) == 2
    assert [await world.source.hold(candidate, "one", HOLD_S) for candidate in found] == [None, None]
    assert await world.candidates() == []
    assert await world.status(job.job_id) == JobStatus.CANCELLED


async def test_a_job_of_the_largest_payload_is_retried(world: World) -> None:
    payload = {"text": "x" * 1_000_000}
    job = await world.create(payload)
    again = world.settlement(ItemState.AGAIN, attempts=1, failure=FAILURE)
    assert await world.source.settle(await held(world, job.job_id), again)
    assert json.loads((await held(world, job.job_id)).payload) == payload


async def test_a_retry_is_not_told(embedded: World) -> None:
    job = await embedded.create(terms=JobTerms(None, "http://127.0.0.1:9/told"))
    again = embedded.settlement(ItemState.AGAIN, attempts=1, delay_s=60.0, failure=FAILURE)
    assert await embedded.source.settle(await held(embedded, job.job_id), again)
    assert await embedded.candidates() == []


@pytest.mark.parametrize("statement", ["run_end", "job_status"])
@pytest.mark.parametrize("way", ["settle", "give_back"])
async def test_a_cancel_that_was_cut_off_is_carried_on_by_the_end_of_the_run(
    way: str, statement: str, embedded: World
) -> None:
    job = await embedded.create()
    item = await held(embedded, job.job_id)
    await embedded.requests.cancel(job.job_id)
    embedded.recorded.broken[statement] = Unknown("cut off")
    with pytest.raises(Unknown):
        await embedded.source.renew(item, HOLD_S)
    source = embedded.source
    assert not await (source.give_back(item) if way == "give_back" else source.settle(item, embedded.settlement()))
    assert await embedded.status(job.job_id) == JobStatus.CANCELLED
    assert await is_free(embedded, job.job_id)
    assert await embedded.candidates() == []


@pytest.mark.parametrize("way", ["failed", "given_back"])
async def test_a_cancelled_job_does_not_run_again_though_no_renewal_has_seen_it(way: str, embedded: World) -> None:
    job, source = await embedded.create(), embedded.source
    item = await held(embedded, job.job_id)
    await embedded.requests.cancel(job.job_id)
    for _ in range(2):
        again = embedded.settlement(ItemState.AGAIN, attempts=1, failure=FAILURE)
        assert await (source.settle(item, again) if way == "failed" else source.give_back(item))
        assert await embedded.status(job.job_id) == JobStatus.CANCELLED
    assert [run.status for run in await embedded.tables.history.runs(job.job_id)] == [way]
    embedded.clock.move(minutes=1)
    assert await embedded.candidates() == []


async def test_a_cancelled_job_whose_worker_is_lost_is_not_put_back(embedded: World) -> None:
    job = await embedded.create()
    await held(embedded, job.job_id)
    await embedded.tables.jobs.ask_cancel(job.job_id, embedded.clock())
    await run_out(embedded, job.job_id)
    embedded.clock.move(seconds=10)
    await JobReconciler(embedded.parts).look()
    assert await embedded.status(job.job_id) == JobStatus.CANCELLED
    assert await embedded.candidates() == []
