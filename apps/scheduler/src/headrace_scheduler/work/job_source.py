"""Jobs as a source: the walk of one run over the tables, in the order of the specification (§5.1).

    lock → read the pending row again; gone: release, and leave it → delete it → `running` → history
    → (heartbeat, and the handler) → history end → status → release

No two statements are one transaction, so the order is what keeps a job from getting lost. Up to the deletion of the
pending row another worker takes the job over when the lock has expired. From there to the end the row in
`jobs_sharded` says that the job has not ended, the lock is held or expired, and the reconciler puts the job back. A
retry is written as a pending row with a new time, because the old one would be hidden by its tombstone.

A settlement first reads the lock: who lost it writes nothing. A status is written above the write time of the one
before, so a write that was long on its way cannot replace a later holder's.
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
from headrace.sources import HeldItem, ItemCandidate, ItemSettlement, ItemState, Polled, SourceFeatures
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import DeadJob, Job, JobRun, JobStatus, Pending
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.work.callbacks import EndedRun, announce
from headrace_scheduler.work.job_locks import JobLocks

RUNS = UUID("6f6b1f5e-4b0c-5c0e-9a8e-0d9f2c7d1b11")
"""The namespace of run ids: one grant of the lock is one run."""
BUCKETS_AT_A_TIME = 4
# A page is larger than what is asked for, so that workers that see the same one take different jobs of it first.
PAGE_FACTOR, PAGE_MIN = 4, 32
STACK_CHARS_MAX = 2_000
STATUSES = {ItemState.DONE: JobStatus.COMPLETED, ItemState.AGAIN: JobStatus.PENDING, ItemState.DEAD: JobStatus.DLQ}
SETTLE, CANCEL = "settle", "cancel"
GIVEN_BACK = "given_back"
"""How a run ends in the history that was stopped without an outcome: no attempt was spent."""


@dataclass(frozen=True, slots=True)
class HeldJob:
    """What the source keeps with a held item. `pending_time` is that of the row by which it was found."""

    job: Job
    run: JobRun
    pending_time: datetime


class JobSource:
    """`headrace.sources.Source` over the tables and locks of the scheduler."""

    features = SourceFeatures(holds_repeat=True, reports=True)

    def __init__(self, tables: AllTables, locks: JobLocks, buckets: int, chance: random.Random | None = None) -> None:
        self._tables, self._locks = tables, locks
        self._buckets, self._chance = buckets, chance or random.Random()
        self._next = self._chance.randrange(buckets)
        # Which of the two that may end a run of ours has begun to: its settlement, or a cancel seen by a renewal.
        self._endings: dict[UUID, str] = {}

    async def poll(self, count_max: int) -> Polled:
        """Look into the buckets in turn until there is enough, beginning where the poll before ended."""
        found: list[Pending] = []
        room, begun_at = max(PAGE_FACTOR * count_max, PAGE_MIN), self._next
        for first in range(0, self._buckets, BUCKETS_AT_A_TIME):
            turn = range(first, min(first + BUCKETS_AT_A_TIME, self._buckets))
            buckets = [(begun_at + number) % self._buckets for number in turn]
            for page in await asyncio.gather(*(self._tables.pending.due(bucket, room) for bucket in buckets)):
                found += page
            self._next = (buckets[-1] + 1) % self._buckets
            if len(found) >= count_max:
                break
        self._chance.shuffle(found)
        return Polled(tuple(ItemCandidate(str(row.job_id), row) for row in found[:count_max]))

    async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
        pending: Pending = candidate.row
        leased = await self._locks.take(pending.job_id, holder, hold_s)
        if leased is None:
            return None
        # A repeat was granted some time ago, and lasts from now on.
        if leased.repeated and not await self._locks.renew(pending.job_id, leased.lease.fence, hold_s):
            return None
        seen, job = await asyncio.gather(self._tables.pending.read(pending), self._tables.jobs.find(pending.job_id))
        if seen is not None and job is None:
            job = await self._tables.jobs.adopt(seen)
        if job is None or not self._may_run(job, seen, leased):
            if seen is not None:
                await self._tables.pending.remove(seen)
            await self._locks.release(pending.job_id, leased.lease.fence)
            return None
        return await self._begin(job, seen, leased, pending.scheduled_time)

    async def renew(self, held: HeldItem, hold_s: float) -> bool:
        """A job that somebody cancelled ends here: its handler is stopped as if the lock were lost."""
        row = _row(held)
        if not await self._locks.renew(row.job.job_id, held.fence, hold_s):
            return False
        if (await self._tables.jobs.outcome(row.job.job_id)).cancel_asked_at is None:
            return True
        if self._endings.setdefault(row.run.run_id, CANCEL) != CANCEL:
            return True
        await self._end_run(row, JobStatus.CANCELLED, self._tables.now())
        await self._tables.jobs.write_status(row.job, JobStatus.CANCELLED, row.job.attempts)
        await self._release(row, held.fence)
        return False

    async def settle(self, held: HeldItem, settlement: ItemSettlement) -> bool:
        row = _row(held)
        if self._endings.setdefault(row.run.run_id, SETTLE) != SETTLE:
            return False
        if not await self._locks.held(row.job.job_id, held.fence):
            return await self._is_over(row, STATUSES[settlement.state])
        ended_at = _moment(settlement.decided_at)
        if settlement.state is ItemState.DONE:
            await self._complete(row, settlement, ended_at)
        elif settlement.failure is None:
            await self._end_run(row, GIVEN_BACK, ended_at)
            await self._wait_again(row, row.job, _moment(settlement.due_at))
        else:
            await self._fail(row, settlement, ended_at)
        await self._release(row, held.fence)
        return True

    async def give_back(self, held: HeldItem) -> bool:
        row = _row(held)
        if not await self._locks.held(row.job.job_id, held.fence):
            return await self._is_over(row, JobStatus.PENDING)
        now = self._tables.now()
        await self._end_run(row, GIVEN_BACK, now)
        await self._wait_again(row, row.job, now)
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
        return seen is not None or (leased.repeated and not job.ended)

    async def _begin(self, job: Job, seen: Pending | None, leased: Leased, pending_time: datetime) -> HeldItem:
        fence, tables = leased.lease.fence, self._tables
        run = JobRun(job.job_id, run_id_of(job.job_id, fence), leased.lease.holder, fence, whole_ms(tables.now()))
        if seen is not None:
            await tables.pending.remove(seen)
        job = await tables.jobs.write_status(job, JobStatus.RUNNING, job.attempts)
        await tables.history.begin(run)
        payload = seen.payload if seen is not None and seen.payload is not None else job.payload
        return HeldItem(
            str(job.job_id),
            payload,
            fence,
            job.attempts,
            timeout_s=job.terms.max_duration_seconds,
            row=HeldJob(replace(job, payload=payload), run, pending_time),
        )

    async def _complete(self, row: HeldJob, settlement: ItemSettlement, ended_at: datetime) -> None:
        if settlement.result is not None:
            text = json.dumps(settlement.result, ensure_ascii=False, default=str)
            await self._tables.jobs.write_result(row.job.job_id, text)
        end = {"status": JobStatus.COMPLETED, "result": settlement.result}
        await announce(self._tables, self._buckets, EndedRun(row.job, row.run, ended_at, end))
        await self._end_run(row, JobStatus.COMPLETED, ended_at)
        await self._tables.jobs.write_status(row.job, JobStatus.COMPLETED, row.job.attempts)

    async def _fail(self, row: HeldJob, settlement: ItemSettlement, ended_at: datetime) -> None:
        failure = settlement.failure
        assert failure is not None
        if settlement.state is ItemState.DEAD:
            end = {"status": JobStatus.DLQ, "error": _first_line(failure)}
            await announce(self._tables, self._buckets, EndedRun(row.job, row.run, ended_at, end))
        await self._end_run(row, JobStatus.FAILED, ended_at)
        job = await self._tables.jobs.write_status(row.job, JobStatus.FAILED, settlement.attempts)
        if settlement.state is ItemState.AGAIN:
            await self._wait_again(row, job, _moment(settlement.due_at))
            return
        dead = DeadJob(
            job.job_id,
            job.attempts,
            _first_line(failure),
            ended_at,
            job.payload,
            failure.reason,
            failure.traceback[-STACK_CHARS_MAX:] or None,
            job.terms.correlation_id,
        )
        await self._tables.dead.add(dead)
        await self._tables.jobs.write_status(job, JobStatus.DLQ, job.attempts)

    async def _wait_again(self, row: HeldJob, job: Job, due_at: datetime) -> None:
        await enqueue(self._tables, job, due_at, row.pending_time)

    async def _release(self, row: HeldJob, fence: int) -> None:
        await self._locks.release(row.job.job_id, fence)
        self._endings.pop(row.run.run_id, None)

    async def _end_run(self, row: HeldJob, status: str, ended_at: datetime) -> None:
        await self._tables.history.end(row.job.job_id, row.run.run_id, whole_ms(ended_at), status)

    async def _is_over(self, row: HeldJob, status: JobStatus) -> bool:
        """The lock is not ours: has this run ended so before, and nobody has run the job since?"""
        last = await self._tables.history.last(row.job.job_id)
        job = await self._tables.jobs.find(row.job.job_id)
        if last is None or job is None:
            return False
        return last.run_id == row.run.run_id and last.end_at is not None and job.status == status


async def enqueue(tables: AllTables, job: Job, due_at: datetime, before: datetime | None) -> Job:
    """A pending row with a new time, later than the one `before`, and the job waits. The caller holds the lock."""
    due_at = whole_ms(due_at)
    if before is not None:
        due_at = max(due_at, before + timedelta(milliseconds=1))
    await tables.jobs.write_pending_time(job.job_id, due_at)
    await tables.pending.add(Pending(job.key.bucket_id, due_at, job.job_id, job.payload))
    return await tables.jobs.write_status(job, JobStatus.PENDING, job.attempts)


def run_id_of(job_id: UUID, fence: int) -> UUID:
    return uuid5(RUNS, f"{job_id}/{fence}")


def _first_line(failure: Loss) -> str:
    return (failure.error or failure.reason).partition("\n")[0]


def _row(held: HeldItem) -> HeldJob:
    row: HeldJob = held.row
    return row


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
