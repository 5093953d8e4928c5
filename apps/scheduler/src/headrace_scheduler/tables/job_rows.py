"""Jobs: `jobs_sharded`, and `jobs_by_id` by which one is found.

A status is written by the holder of the job's lock, with a write time above that of the status before and of whatever
earlier holders may still have on its way: not by the clock, but by the token (`Job.under`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from headrace.tables import Row
from headrace_scheduler.jobs.texts import payload_type
from headrace_scheduler.jobs.values import Job, JobKey, JobLosses, JobStatus, JobTerms, Pending
from headrace_scheduler.tables.job_tables import JobTables, Write, as_id, micros
from headrace_scheduler.tables.unread_rows import UnreadRows

Now = Callable[[], datetime]
LOOKUP = "jobs_by_id"
MILLISECOND_US = 1_000
"""Cassandra keeps moments in milliseconds, and write times in microseconds."""


@dataclass(frozen=True, slots=True)
class ScannedJob:
    """What a scan sees of a job. `status_us` is when its status was written."""

    key: JobKey
    status: str
    attempts: int
    status_us: int


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What came of a job so far. `pending_time` is that of the pending row that we wrote last."""

    pending_time: datetime | None = None
    cancel_asked_at: datetime | None = None
    progress: str | None = None
    result: str | None = None


@dataclass(frozen=True, slots=True)
class JobSummary:
    """What people want to know of a job at a glance, beside its row. Of a job that was made by an earlier version, or
    that only its row in `jobs_sharded` tells of, it may be empty."""

    pending_time: datetime | None = None
    payload_type: str | None = None
    last_error: str | None = None
    suspect: bool | None = None


class JobRows:
    """Statements about jobs, as calls."""

    def __init__(self, tables: JobTables, now: Now, unread: UnreadRows | None = None) -> None:
        self._tables, self._now, self._unread = tables, now, unread or UnreadRows()

    async def add(self, job: Job, *beside: Write) -> None:
        """A new job, with what is written together with its row. Again, also later: nothing changes."""
        await self._register(job, job.key.scheduled_time, job.status_us)
        own = {**_key(job.key), "payload": job.payload, "status": job.status, "written_us": job.status_us}
        await self._tables.together(("job_add", own), *beside)

    async def find(self, job_id: UUID, guess: JobKey | None = None) -> Job | None:
        """A job that was created here, or that was seen here once. Its row is read from where `guess` says at the same
        time as it is looked up, and again if it is elsewhere: a first run has its pending row under the job's key."""
        if guess is None:
            found, guessed = await self._tables.rows("job_where", job_id=job_id), None
        else:
            found, guessed = await asyncio.gather(self._tables.rows("job_where", job_id=job_id), self.read(guess))
        if not found or found[0][0] is None:
            return None
        bucket_id, scheduled_time, *terms, suspect, alone_token, crash_tokens, cancel_asked_at = found[0]
        key = JobKey(bucket_id, scheduled_time, job_id)
        job = guessed if key == guess else await self.read(key)
        tokens = self._unread.read(LOOKUP, str(job_id), (crash_tokens,), _tokens)
        losses = JobLosses(bool(suspect), alone_token, tokens)
        return job and replace(job, terms=JobTerms(*terms), losses=losses, cancel_asked_at=cancel_asked_at)

    async def bucket(self, job_id: UUID) -> int | None:
        """The bucket of a job that was seen here once."""
        found = await self._tables.rows("job_where", job_id=job_id)
        return found[0][0] if found else None

    async def read(self, key: JobKey) -> Job | None:
        """The job's row as it is now, without what `jobs_by_id` knows of it."""
        found = await self._tables.rows("job_row", **_key(key))
        if not found:
            return None
        payload, status, attempts, status_us = found[0]
        return Job(key, payload, status or JobStatus.PENDING, attempts or 0, status_us or 0)

    async def adopt(self, pending: Pending) -> Job:
        """A job of another program, seen here for the first time: from now on it is found by its id.

        Such a program writes both rows under one key. If there is none in `jobs_sharded`, it is made.
        """
        key = JobKey(pending.bucket_id, pending.scheduled_time, pending.job_id)
        job = await self.recognise(key)
        if job is None:
            job = Job(key, pending.payload, JobStatus.PENDING, 0, pending.written_us or micros(self._now()))
            await self.add(job)
        return job

    async def recognise(self, key: JobKey) -> Job | None:
        """A job of another program by its row: from now on it is found by its id. None: there is no such row."""
        job = await self.read(key)
        if job is not None:
            await self._register(job, key.scheduled_time, micros(self._now()))
        return job

    async def write_status(self, job: Job, status: str, attempts: int, *beside: Write) -> Job:
        """The next state of a job that was read under its lock (`Job.under`), and what is written together with it; the
        answer is the job as it is now. The same again writes the same."""
        job = job.turned(status, attempts)
        await self.write_turned(job, *beside)
        return job

    async def write_turned(self, job: Job, *beside: Write) -> None:
        """Status and attempts as `Job.turned` made them."""
        own = {**_key(job.key), "status": job.status, "attempts": job.attempts, "written_us": job.status_us}
        await self._tables.together(*beside, ("job_status", own))

    async def scan(self, bucket_id: int, after: JobKey, until: datetime, room: int) -> list[ScannedJob]:
        """One page of a bucket's jobs, the earliest first."""
        found = await self._tables.rows(
            "job_scan",
            bucket_id=bucket_id,
            after_time=after.scheduled_time,
            after_id=after.job_id,
            until=until,
            room=room,
        )
        return [_scanned(bucket_id, row) for row in found]

    async def scan_back(self, bucket_id: int, before: JobKey, since: datetime, room: int) -> list[ScannedJob]:
        """One page of a bucket's jobs, the latest first."""
        found = await self._tables.rows(
            "job_scan_back",
            bucket_id=bucket_id,
            before_time=before.scheduled_time,
            before_id=before.job_id,
            since=since,
            room=room,
        )
        return [_scanned(bucket_id, row) for row in found]

    async def outcome(self, job_id: UUID) -> JobOutcome:
        found = await self._tables.rows("job_outcome", job_id=job_id)
        return JobOutcome(*found[0]) if found else JobOutcome()

    async def summary(self, job_id: UUID) -> JobSummary:
        found = await self._tables.rows("job_summary", job_id=job_id)
        return JobSummary(*found[0]) if found else JobSummary()

    def error(self, job_id: UUID, last_error: str) -> Write:
        return self._own("job_error", job_id, last_error=last_error)

    def pending_time(self, job_id: UUID, moment: datetime) -> Write:
        return self._own("job_pending_time", job_id, pending_time=moment)

    async def ask_cancel(self, job_id: UUID, moment: datetime) -> None:
        """A job that cannot be cancelled here and now, because its lock is another's, is to be."""
        await self._write("job_cancel_ask", job_id, cancel_asked_at=moment)

    async def forget_cancel(self, job: Job) -> None:
        """What was asked for has been passed by: the job runs anew. Dated above what was asked, whosever clock was
        ahead."""
        if job.cancel_asked_at is not None:
            asked_us = micros(job.cancel_asked_at) + MILLISECOND_US
            written_us = max(micros(self._now()), asked_us)
            await self._write("job_cancel_ask", job.job_id, cancel_asked_at=None, written_us=written_us)

    async def write_losses(self, job_id: UUID, losses: JobLosses) -> None:
        tokens = ",".join(map(str, sorted(losses.crash_tokens)))
        await self._write("job_losses", job_id, suspect=losses.suspect, crash_tokens=tokens)

    async def write_alone(self, job_id: UUID, token: int) -> None:
        """The run with this token is the only one that its worker has started."""
        await self._write("job_alone", job_id, alone_token=token)

    async def write_progress(self, job_id: UUID, progress: str | None) -> None:
        await self._write("job_progress", job_id, progress=progress)

    def result(self, job_id: UUID, result: str | None) -> Write:
        return self._own("job_result", job_id, result=result)

    async def _write(self, name: str, job_id: UUID, **values: object) -> None:
        await self._tables.together(self._own(name, job_id, **values))

    def _own(self, name: str, job_id: UUID, **values: object) -> Write:
        return name, {"job_id": job_id, "written_us": micros(self._now()), **values}

    async def _register(self, job: Job, pending_time: datetime, written_us: int) -> None:
        terms = job.terms
        await self._tables.rows(
            "job_register",
            **_key(job.key),
            pending_time=pending_time,
            max_duration_seconds=terms.max_duration_seconds,
            callback_url=terms.callback_url,
            correlation_id=terms.correlation_id,
            payload_type=payload_type(job.payload),
            written_us=written_us,
        )


def _key(key: JobKey) -> dict[str, object]:
    return {"bucket_id": key.bucket_id, "scheduled_time": key.scheduled_time, "job_id": key.job_id}


def _tokens(row: Row) -> frozenset[int]:
    (text,) = row
    return frozenset(map(int, text.split(","))) if text else frozenset()


def _scanned(bucket_id: int, row: Row) -> ScannedJob:
    scheduled_time, job_id, status, attempts, status_us = row
    key = JobKey(bucket_id, scheduled_time, as_id(job_id))
    return ScannedJob(key, status or JobStatus.PENDING, attempts or 0, status_us or 0)
