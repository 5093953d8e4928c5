"""Deletes jobs that ended long ago, with their runs, their letters and the rows that count their tokens.

A job is deleted under its lock, and its row in `jobs_sharded` last: that is what a purge goes by, so one that was cut
off is done again. The lookup goes before the tokens: from then on nobody can ask for the job to run, so no worker of
ours is ever granted its lock for a run under a token that begins at 1 again.

Rows of `jobs_sharded` are deleted by ranges of their order, up to the next one that stays, and dated before the purge
looked at them: a tombstone for each would lie in the way of whoever reads the bucket, and what another program inserts
there meanwhile is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from headrace.services import while_held
from headrace_scheduler.jobs.values import ENDED, JobKey, JobRun, JobStatus, resource_of
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.job_rows import ScannedJob
from headrace_scheduler.tables.job_tables import micros
from headrace_scheduler.tables.pending_rows import LONG_AGO
from headrace_scheduler.work.job_locks import JobLocks

PAGE = 500
START = JobKey(0, LONG_AGO, UUID(int=0))
EARLIER = timedelta(minutes=5)
"""A range is dated so much before it was looked at: what was inserted meanwhile is spared, also by a clock behind."""


@dataclass(frozen=True, slots=True)
class PurgeLimits:
    """What ended before these moments goes; None: nothing. Dead jobs have one of their own."""

    ended: datetime | None
    dead: datetime | None

    def of(self, status: str) -> datetime | None:
        return self.dead if status == JobStatus.DLQ else self.ended

    @property
    def latest(self) -> datetime | None:
        return max(filter(None, (self.ended, self.dead)), default=None)


@dataclass(frozen=True, slots=True)
class PurgedPage:
    """What came of one page of a bucket. `after` is where the next one begins; None: that was the last."""

    purged: int
    after: JobKey | None


class JobPurger:
    """Deletes page by page. With `dry_run` it counts, and writes nothing."""

    def __init__(self, tables: AllTables, locks: JobLocks, hold_s: float, dry_run: bool = False) -> None:
        self._tables, self._locks, self._hold_s, self._dry_run = tables, locks, hold_s, dry_run
        self._holder = f"purge:{uuid4()}"

    async def page(self, bucket: int, after: JobKey, limits: PurgeLimits, room: int = PAGE) -> PurgedPage:
        """Look at up to `room` jobs of a bucket that were due before the limits."""
        looked_at, latest = self._tables.now(), limits.latest
        if latest is None:
            return PurgedPage(0, None)
        rows = await self._tables.jobs.scan(bucket, after, latest, room)
        purged, begin, last = 0, after, None
        # No status of what goes was written after its limit.
        written_us = micros(max(latest, looked_at - EARLIER))
        for row in rows:
            if await self._purged(row, limits.of(row.status)):
                purged, last = purged + 1, row.key
                continue
            await self._close(begin, last, written_us)
            begin, last = row.key, None
        await self._close(begin, last, written_us)
        return PurgedPage(purged, rows[-1].key if len(rows) == room else None)

    async def _purged(self, row: ScannedJob, limit: datetime | None) -> bool:
        if limit is None or row.status not in ENDED or await self._ended_at(row.key) >= limit:
            return False
        return self._dry_run or await while_held(self._locked_purge(row), self._hold_s)

    async def _locked_purge(self, row: ScannedJob) -> bool:
        job_id = row.key.job_id
        leased = await self._locks.take(job_id, self._holder, self._hold_s)
        if leased is None:
            return False
        try:
            now = await self._tables.jobs.read(row.key)
            found = await self._tables.jobs.find(job_id)
            if now is None or not now.ended or (found is not None and found.key != row.key):
                return False
            await self._delete(job_id)
        finally:
            await self._locks.release(job_id, leased.lease.fence)
        return True

    async def _ended_at(self, key: JobKey) -> datetime:
        """When it ended at the latest: its last run, or when it was last to run."""
        runs: list[JobRun] = await self._tables.history.runs(key.job_id)
        outcome = await self._tables.jobs.outcome(key.job_id)
        moments = [moment for run in runs for moment in (run.start_at, run.end_at)]
        return max(filter(None, (key.scheduled_time, outcome.pending_time, outcome.cancel_asked_at, *moments)))

    async def _delete(self, job_id: UUID) -> None:
        """The lookup before the tokens: a job that can be found can be run."""
        rows = self._tables.tables.rows
        await rows("runs_delete", job_id=str(job_id))
        await self._tables.dead.remove(job_id)
        await rows("job_forget", job_id=job_id, written_us=micros(self._tables.now()))
        await rows("tokens_delete", resource=resource_of(job_id))

    async def _close(self, begin: JobKey, last: JobKey | None, written_us: int) -> None:
        if last is None or self._dry_run:
            return
        await self._tables.tables.rows(
            "job_range_delete",
            bucket_id=last.bucket_id,
            after_time=begin.scheduled_time,
            after_id=begin.job_id,
            last_time=last.scheduled_time,
            last_id=last.job_id,
            written_us=written_us,
        )
