"""Jobs as a source: the walk of one run over the tables, in the order of the specification (§5.1).

    lock → read the pending row again; gone: release, and leave it → delete it → `running` → history
    → (heartbeat, and the handler) → history end → status → release

A suspect waits in the worker's hands until nothing else runs there: it is `pending` meanwhile, and `running` and its
row in the history are written when it is started alone.

There is no transaction over these steps, so their order is what keeps a job from getting lost. What stands side by side
in the tables is written by one message: deletion, `running` and the begin in the history; the end in the history and
the status. Rows of one bucket change together; whether the history's does is left open if a worker dies, and nothing
rests on it. Up to the deletion of the pending row another worker takes the job over when the lock has expired. From
there to the end the row in `jobs_sharded` says that the job has not ended, the lock is held or expired, and the
reconciler puts the job back. A retry is written as a pending row with a new time, because the old one would be hidden
by its tombstone.

A settlement first reads the lock: who lost it writes nothing. The write time of a status rises with the token, so one
that was long on its way cannot replace a later holder's.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

from headrace.ports import Leased, Loss
from headrace.sources import (
    HeldItem,
    ItemCandidate,
    ItemSettlement,
    ItemState,
    Polled,
    SourceFeatures,
    is_worker_lost,
)
from headrace_scheduler.jobs.error_classes import error_class
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import DeadJob, Job, JobKey, JobRun, JobStatus, Pending
from headrace_scheduler.metrics import renewal_of
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.job_tables import Write
from headrace_scheduler.tenants.fair_poll import FairPoll
from headrace_scheduler.work.callbacks import EndedRun, announce
from headrace_scheduler.work.job_locks import JobLocks
from headrace_scheduler.work.lost_runs import GIVEN_BACK, SUSPECTED_AFTER, note_lost_runs

RUNS = UUID("6f6b1f5e-4b0c-5c0e-9a8e-0d9f2c7d1b11")
"""The namespace of run ids: one grant of the lock is one run."""
STACK_CHARS_MAX = 2_000
LAST_ERROR_CHARS_MAX = 300
STATUSES = {ItemState.DONE: JobStatus.COMPLETED, ItemState.AGAIN: JobStatus.PENDING, ItemState.DEAD: JobStatus.DLQ}


class RunProgress:
    """How far a run has come: whether it has `started`, which a suspect has to wait for, and which of the two that may
    end it has begun to: its settlement, or a cancel seen by a renewal."""

    SETTLE, CANCEL = "settle", "cancel"

    def __init__(self, started: bool) -> None:
        self.started, self._by = started, ""

    def begin_end(self, by: str) -> bool:
        """Whether it is this one that ends the run: the first that begins."""
        self._by = self._by or by
        return self._by == by

    def ending(self) -> bool:
        return self._by != ""


@dataclass(frozen=True, slots=True)
class HeldJob:
    """What the source keeps with a held item: the job as it is when it runs. `pending_time` is that of the row by
    which it was found."""

    job: Job
    run: JobRun
    pending_time: datetime
    progress: RunProgress


class JobSource:
    """`headrace.sources.Source` over the tables and locks of the scheduler."""

    features = SourceFeatures(suspected_after=SUSPECTED_AFTER)

    def __init__(
        self,
        tables: AllTables,
        locks: JobLocks,
        buckets: int,
        chance: random.Random | None = None,
        room: Callable[[str], int | None] = lambda _: None,
    ) -> None:
        self._tables, self._locks, self._buckets = tables, locks.noting(tables.refused), buckets
        self._fair_poll = FairPoll(tables, buckets, chance or random.Random(), room)

    async def poll(self, count_max: int) -> Polled:
        """Tenants in turn and priorities by their shares: see `FairPoll`."""
        await self._locks.learn()
        found = await self._fair_poll.rows(count_max)
        return Polled(tuple(ItemCandidate(str(row.job_id), row, rank) for rank, row in enumerate(found)))

    async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
        pending: Pending = candidate.row
        leased = await self._locks.take(pending.job_id, holder, hold_s)
        if leased is None:
            return None
        # A repeat was granted some time ago, and lasts from now on.
        if leased.repeated and not await self._locks.renew(pending.job_id, leased.lease.fence, hold_s):
            return None
        guess = JobKey(pending.bucket_id, pending.scheduled_time, pending.job_id)
        seen, job = await asyncio.gather(
            self._tables.pending.read(pending), self._tables.jobs.find(pending.job_id, guess)
        )
        if seen is not None and job is None:
            job = await self._tables.jobs.adopt(seen)
        if job is None or not self._may_run(job, seen, leased):
            if seen is not None:
                await self._tables.pending.remove(seen)
            await self._locks.release(pending.job_id, leased.lease.fence)
            return None
        return await self._begin(job, seen, leased, pending.scheduled_time)

    async def begin_alone(self, held: HeldItem) -> bool:
        row = _row(held)
        if not await self._locks.held(row.job.job_id, held.fence):
            return False
        # First: a run in the history that says nothing of this would be taken for one beside others.
        await self._tables.jobs.write_alone(row.job.job_id, held.fence)
        await self._start(row)
        if row.progress.ending():
            # A renewal has seen a cancel meanwhile, and knew of no run.
            await self._tables.tables.together(self._ended(row, JobStatus.CANCELLED, self._tables.now()))
            return False
        return True

    async def renew(self, held: HeldItem, hold_s: float) -> bool:
        """A job that somebody cancelled ends here: its handler is stopped as if the lock were lost."""
        row = _row(held)
        with renewal_of(row.progress.ending):
            if not await self._locks.renew(row.job.job_id, held.fence, hold_s):
                return False
        if (await self._tables.jobs.outcome(row.job.job_id)).cancel_asked_at is None:
            return True
        if not row.progress.begin_end(RunProgress.CANCEL):
            return True
        await self._cancel(row, held.fence)
        return False

    async def settle(self, held: HeldItem, settlement: ItemSettlement) -> bool:
        row = _row(held)
        if not row.progress.begin_end(RunProgress.SETTLE):
            return await self._cancel_begun(row, held.fence)
        if not await self._locks.held(row.job.job_id, held.fence):
            return await self._is_over(row, STATUSES[settlement.state])
        if not row.progress.started:
            await self._start(row)
        if row.job.losses.suspect and not is_worker_lost(settlement):
            await self._tables.jobs.write_losses(row.job.job_id, replace(row.job.losses, suspect=False))
        ended_at = _moment(settlement.decided_at)
        if settlement.state is ItemState.DONE:
            await self._complete(row, settlement, ended_at)
        elif settlement.failure is None:
            await self._wait_again(row, row.job, _moment(settlement.due_at), self._ended(row, GIVEN_BACK, ended_at))
        else:
            await self._fail(row, settlement, ended_at)
        await self._release(row, held.fence)
        return True

    async def give_back(self, held: HeldItem) -> bool:
        row = _row(held)
        if not row.progress.begin_end(RunProgress.SETTLE):
            return await self._cancel_begun(row, held.fence)
        if not await self._locks.held(row.job.job_id, held.fence):
            return await self._is_over(row, JobStatus.PENDING)
        now = self._tables.now()
        ended = [self._ended(row, GIVEN_BACK, now)] if row.progress.started else []
        await self._wait_again(row, row.job, now, *ended)
        await self._release(row, held.fence)
        return True

    async def report(self, held: HeldItem, progress: Mapping[str, object]) -> bool:
        row = _row(held)
        if not await self._locks.held(row.job.job_id, held.fence):
            return False
        await self._tables.jobs.write_progress(row.job.job_id, json.dumps(progress, ensure_ascii=False, default=str))
        return True

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        """Tables do not ring."""
        return lambda: None

    def _may_run(self, job: Job, seen: Pending | None, leased: Leased) -> bool:
        """Whether this grant shall run the job. Without its pending row only if this is a repeat of the call that has
        deleted it: the lock was never let go, so nobody else has run it since."""
        if job.status == JobStatus.CANCELLED:
            return False
        if seen is None:
            return leased.repeated and not job.ended
        # A row that was long on its way: the job has run meanwhile, by another row that the reconciler wrote. Whoever
        # wants it to run again writes later than it ended; a row without a payload does not tell when it was written.
        return not (job.ended and 0 < seen.written_us < job.status_us)

    async def _begin(self, job: Job, seen: Pending | None, leased: Leased, pending_time: datetime) -> HeldItem | None:
        fence, tables = leased.lease.fence, self._tables
        job = job.under(fence)
        if job.status == JobStatus.RUNNING and not leased.repeated:
            # Whoever had the lock before was lost in a run, and left a pending row all the same.
            job = await note_lost_runs(tables, job)
        removal = [] if seen is None else [tables.pending.removal(seen)]
        if job.ended:
            # Another program wants it to run again, and nobody has cancelled that.
            await tables.jobs.forget_cancel(job)
        elif job.cancel_asked_at is not None and not leased.repeated:
            # Whoever cancelled it could not lock it. Of a run that has begun the next renewal sees it.
            await tables.jobs.write_status(job, JobStatus.CANCELLED, job.attempts, *removal)
            await self._locks.release(job.job_id, fence)
            return None
        run = JobRun(job.job_id, run_id_of(job.job_id, fence), leased.lease.holder, fence, None)
        # A repeat may be of a run that was started alone before.
        waits = job.losses.suspect and job.losses.alone_token != fence
        if waits:
            job = await tables.jobs.write_status(job, JobStatus.PENDING, job.attempts, *removal)
        job = job.turned(JobStatus.RUNNING, job.attempts)
        payload = seen.payload if seen is not None and seen.payload is not None else job.payload
        row = HeldJob(replace(job, payload=payload), run, pending_time, RunProgress(started=not waits))
        if not waits:
            await self._start(row, *removal)
        return HeldItem(
            str(job.job_id),
            payload,
            fence,
            job.attempts,
            timeout_s=job.terms.max_duration_seconds,
            suspect=job.losses.suspect,
            crashes=len(job.losses.crash_tokens),
            row=row,
        )

    async def _start(self, row: HeldJob, *beside: Write) -> None:
        begun = self._tables.history.begun(replace(row.run, start_at=whole_ms(self._tables.now())))
        await self._tables.jobs.write_turned(row.job, *beside, begun)
        row.progress.started = True

    async def _complete(self, row: HeldJob, settlement: ItemSettlement, ended_at: datetime) -> None:
        end = {"status": JobStatus.COMPLETED, "result": settlement.result}
        await announce(self._tables, self._buckets, EndedRun(row.job, row.run, ended_at, end))
        writes = [self._ended(row, JobStatus.COMPLETED, ended_at)]
        if settlement.result is not None:
            text = json.dumps(settlement.result, ensure_ascii=False, default=str)
            writes.append(self._tables.jobs.result(row.job.job_id, text))
        await self._tables.jobs.write_status(row.job, JobStatus.COMPLETED, row.job.attempts, *writes)

    async def _fail(self, row: HeldJob, settlement: ItemSettlement, ended_at: datetime) -> None:
        failure = settlement.failure
        assert failure is not None
        if settlement.state is ItemState.DEAD:
            end = {"status": JobStatus.DLQ, "error": _first_line(failure)}
            await announce(self._tables, self._buckets, EndedRun(row.job, row.run, ended_at, end))
        writes = (
            self._tables.jobs.error(row.job.job_id, _in_a_line(failure)),
            self._ended(row, JobStatus.FAILED, ended_at),
        )
        job = await self._tables.jobs.write_status(row.job, JobStatus.FAILED, settlement.attempts, *writes)
        if settlement.state is ItemState.AGAIN:
            await self._wait_again(row, job, _moment(settlement.due_at))
            return
        dead = DeadJob(
            job.job_id,
            job.attempts,
            _first_line(failure),
            ended_at,
            job.payload,
            error_class(failure.reason, failure.rule),
            failure.traceback[-STACK_CHARS_MAX:] or None,
            job.terms.correlation_id,
        )
        await self._tables.dead.add(dead)
        await self._tables.jobs.write_status(job, JobStatus.DLQ, job.attempts)

    async def _wait_again(self, row: HeldJob, job: Job, due_at: datetime, *beside: Write) -> None:
        """Unless somebody has cancelled it meanwhile, and no renewal has seen that: then it does not run again."""
        if (await self._tables.jobs.outcome(job.job_id)).cancel_asked_at is None:
            await enqueue(self._tables, job, due_at, row.pending_time, *beside)
        else:
            await self._tables.jobs.write_status(job, JobStatus.CANCELLED, job.attempts, *beside)

    async def _cancel(self, row: HeldJob, fence: int) -> None:
        ended = [self._ended(row, JobStatus.CANCELLED, self._tables.now())] if row.progress.started else []
        await self._tables.jobs.write_status(row.job, JobStatus.CANCELLED, row.job.attempts, *ended)
        await self._release(row, fence)

    async def _cancel_begun(self, row: HeldJob, fence: int) -> bool:
        """A cancel was first to end the run. It may have been cut off, and nobody else carries it on."""
        if await self._locks.held(row.job.job_id, fence):
            await self._cancel(row, fence)
        return False

    async def _release(self, row: HeldJob, fence: int) -> None:
        await self._locks.release(row.job.job_id, fence)

    def _ended(self, row: HeldJob, status: str, ended_at: datetime) -> Write:
        return self._tables.history.ended(row.run, ended_at, status)

    async def _is_over(self, row: HeldJob, status: JobStatus) -> bool:
        """The lock is not ours: has this run ended so before, and nobody has run the job since? One that was never
        started is in no history, but no other holder writes a status with its time."""
        last = await self._tables.history.last(row.job.job_id)
        job = await self._tables.jobs.find(row.job.job_id)
        ends = {status, JobStatus.CANCELLED} if status == JobStatus.PENDING else {status}
        if job is None or job.status not in ends:
            return False
        if not row.progress.started:
            return job.status_us == row.job.status_us + 1
        return last is not None and last.run_id == row.run.run_id and last.end_at is not None


async def enqueue(tables: AllTables, job: Job, due_at: datetime, before: datetime | None, *beside: Write) -> Job:
    """A pending row with a new time, later than the one `before`, and the job waits. The caller holds the lock."""
    due_at = whole_ms(due_at)
    if before is not None:
        due_at = max(due_at, before + timedelta(milliseconds=1))
    # As its status: a row that is long on its way is older than the end of a later holder's run.
    written_us = job.status_us + 1
    waiting = await tables.pending.addition(Pending(job.key.bucket_id, due_at, job.job_id, job.payload, written_us))
    where = tables.jobs.pending_time(job.job_id, due_at)
    return await tables.jobs.write_status(job, JobStatus.PENDING, job.attempts, *beside, where, waiting)


def run_id_of(job_id: UUID, fence: int) -> UUID:
    return uuid5(RUNS, f"{job_id}/{fence}")


def _first_line(failure: Loss) -> str:
    return (failure.error or failure.reason).partition("\n")[0]


def _in_a_line(failure: Loss) -> str:
    """The class of an error and its first line, which the engine has freed of what looks like a secret."""
    named, line = error_class(failure.reason, failure.rule), _first_line(failure)
    return (line if named in line else f"{named}: {line}")[:LAST_ERROR_CHARS_MAX]


def _row(held: HeldItem) -> HeldJob:
    row: HeldJob = held.row
    return row


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
