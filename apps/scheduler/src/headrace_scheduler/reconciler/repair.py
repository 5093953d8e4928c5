"""One job that seems to be left half done: judged, and put right, under its lock."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from headrace.ports import Lease
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import DeadJob, Job, JobKey, JobRun, JobStatus, Pending
from headrace_scheduler.settings import SchedulerSettings
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.work.job_locks import JobLocks
from headrace_scheduler.work.job_source import enqueue

LOST = "lost"
"""How a run ends in the history whose worker was gone before it could say how."""
ERROR_LOST = "the worker was lost after the run had failed, and with it what had gone wrong"


class Repairer:
    """Puts jobs back, or ends those whose last run has ended."""

    def __init__(self, tables: AllTables, locks: JobLocks, settings: SchedulerSettings, holder: str) -> None:
        self._tables, self._locks, self._holder = tables, locks, holder
        self._hold_s, self._attempts_max = settings.lock_ttl_s, settings.max_attempts

    async def repair(self, key: JobKey) -> str:
        """The state that the job was given; "" if there was nothing to do after all."""
        lost = await self._locks.look(key.job_id)
        if lost is not None and not lost.free:
            return ""
        leased = await self._locks.take(key.job_id, self._holder, self._hold_s)
        if leased is None:
            return ""
        try:
            job = await self._half_done(key)
            return "" if job is None else await self._put_right(job, lost)
        finally:
            await self._locks.release(key.job_id, leased.lease.fence)

    async def _half_done(self, key: JobKey) -> Job | None:
        """The job as it is under the lock; None if it has ended or waits. A row that is not the job's own, because its
        program wrote another one, is left alone."""
        job = await self._tables.jobs.find(key.job_id)
        if job is None:
            job = await self._tables.jobs.adopt(Pending(key.bucket_id, key.scheduled_time, key.job_id))
        if job.ended or job.key != key:
            return None
        pending_time = (await self._tables.jobs.outcome(key.job_id)).pending_time
        for moment in {key.scheduled_time, pending_time or key.scheduled_time}:
            if await self._tables.pending.read(Pending(key.bucket_id, moment, key.job_id)) is not None:
                return None
        return job

    async def _put_right(self, job: Job, lost: Lease | None) -> str:
        """What the lost run has come to decides: it had ended well, or failed, or nothing is known of it."""
        now = whole_ms(self._tables.now())
        run = await self._run_of(job, lost)
        if job.status == JobStatus.RUNNING and run is not None:
            if run.status == JobStatus.COMPLETED:
                return (await self._tables.jobs.write_status(job, JobStatus.COMPLETED, job.attempts)).status
            if run.status == JobStatus.FAILED:
                job = await self._tables.jobs.write_status(job, JobStatus.FAILED, job.attempts + 1)
            elif run.end_at is None:
                await self._tables.history.end(job.job_id, run.run_id, now, LOST)
        if job.status == JobStatus.FAILED and job.attempts >= self._attempts_max:
            return (await self._bury(job, now)).status
        before = (await self._tables.jobs.outcome(job.job_id)).pending_time
        return (await enqueue(self._tables, replace(job), now, before)).status

    async def _run_of(self, job: Job, lost: Lease | None) -> JobRun | None:
        """The run that the lost lock was taken for; an earlier one says nothing of this."""
        if lost is None:
            return None
        runs = await self._tables.history.runs(job.job_id)
        return next((run for run in runs if run.fencing_token == lost.fence), None)

    async def _bury(self, job: Job, now: datetime) -> Job:
        await self._tables.dead.add(
            DeadJob(job.job_id, job.attempts, ERROR_LOST, now, job.payload, LOST, None, job.terms.correlation_id)
        )
        return await self._tables.jobs.write_status(job, JobStatus.DLQ, job.attempts)
