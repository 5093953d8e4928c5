"""One job that seems to be left half done: judged, and put right, under its lock."""

from __future__ import annotations

from datetime import datetime

from headrace.ports import Lease
from headrace.services import while_held
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import DeadJob, Job, JobKey, JobRun, JobStatus, Pending
from headrace_scheduler.metrics import COMPLETED, FAILED
from headrace_scheduler.parts import SchedulerParts
from headrace_scheduler.work.job_source import enqueue
from headrace_scheduler.work.lost_runs import LOST, note_lost_runs

FOR_RUN = "/run:"
"""The lock of a repair is held in the name of the run that was lost: taking it replaces that run's token."""
HOLD_S = 10.0
"""A repair takes milliseconds, and one that dies keeps its job from everybody for no longer than this. Shorter holds
would ask for better clocks than those of workers have to be."""
ERROR_LOST = "the worker was lost after the run had failed, and with it what had gone wrong"


class Repairer:
    """Puts jobs back, or ends those whose last run has ended."""

    def __init__(self, parts: SchedulerParts, holder: str) -> None:
        self._tables, self._locks, self._metrics, self._holder = parts.tables, parts.locks, parts.metrics, holder
        self._hold_s, self._attempts_max = min(HOLD_S, parts.settings.lock_ttl_s), parts.settings.max_attempts

    async def repair(self, key: JobKey) -> str:
        """The state that the job was given; "" if there was nothing to do after all."""
        return await while_held(self._repair(key), self._hold_s)

    async def _repair(self, key: JobKey) -> str:
        lost = await self._locks.look(key.job_id)
        token = _lost_token(lost)
        holder = self._holder if token is None else f"{self._holder}{FOR_RUN}{token}"
        if lost is not None and not lost.free and lost.holder != holder:
            return ""
        released = lost is None or not lost.holder
        if released and await self._half_done(key) is None:
            # It was enqueued, or has ended, since it was looked for: nobody needs its lock for that.
            return ""
        leased = await self._locks.take(key.job_id, holder, self._hold_s)
        if leased is None:
            return ""
        fence = leased.lease.fence
        # What could not be put right before is ours still, and lasts from now on.
        if leased.repeated and not await self._locks.renew(key.job_id, fence, self._hold_s):
            return ""
        job = await self._half_done(key)
        done = "" if job is None else await self._put_right(job.under(fence), token)
        # Not if that failed: the lock says which run was lost, to whoever goes on.
        await self._locks.release(key.job_id, fence)
        return done

    async def _half_done(self, key: JobKey) -> Job | None:
        """The job as it is now; None if it has ended or waits, or was deleted since it was looked for. A row that is
        not the job's own, because its program wrote another one, is left alone."""
        job = await self._tables.jobs.find(key.job_id) or await self._tables.jobs.recognise(key)
        if job is None or job.ended or job.key != key:
            return None
        pending_time = (await self._tables.jobs.outcome(key.job_id)).pending_time
        for moment in {key.scheduled_time, pending_time or key.scheduled_time}:
            if await self._tables.pending.read(Pending(key.bucket_id, moment, key.job_id)) is not None:
                return None
        return job

    async def _put_right(self, job: Job, token: int | None) -> str:
        """What the lost run has come to decides: it had ended well, or failed, or nothing is known of it."""
        now = whole_ms(self._tables.now())
        run = await self._run_of(job, token)
        if job.status == JobStatus.RUNNING and run is not None:
            if run.status == JobStatus.COMPLETED:
                job = await self._tables.jobs.write_status(job, JobStatus.COMPLETED, job.attempts)
                self._metrics.repaired(COMPLETED)
                return job.status
            if run.status == JobStatus.FAILED:
                job = await self._tables.jobs.write_status(job, JobStatus.FAILED, job.attempts + 1)
        if job.status == JobStatus.RUNNING:
            job = await note_lost_runs(self._tables, job)
        has_failed = job.status == JobStatus.FAILED
        if has_failed and job.attempts >= self._attempts_max:
            job = await self._bury(job, now)
            self._metrics.repaired(FAILED, is_dead=True)
            return job.status
        outcome = await self._tables.jobs.outcome(job.job_id)
        if outcome.cancel_asked_at is None:
            # Whoever wanted a dead job to run again may have been cut off before this.
            await self._tables.dead.remove(job.job_id)
            job = await enqueue(self._tables, job, now, outcome.pending_time)
        else:
            job = await self._tables.jobs.write_status(job, JobStatus.CANCELLED, job.attempts)
        if has_failed:
            self._metrics.repaired(FAILED)
        return job.status

    async def _run_of(self, job: Job, token: int | None) -> JobRun | None:
        """The run that the lost lock was taken for; an earlier one says nothing of this."""
        if token is None:
            return None
        runs = await self._tables.history.runs(job.job_id)
        return next((run for run in runs if run.fencing_token == token), None)

    async def _bury(self, job: Job, now: datetime) -> Job:
        await self._tables.dead.add(
            DeadJob(job.job_id, job.attempts, ERROR_LOST, now, job.payload, LOST, None, job.terms.correlation_id)
        )
        return await self._tables.jobs.write_status(job, JobStatus.DLQ, job.attempts)


def _lost_token(lost: Lease | None) -> int | None:
    """The token of the run that was lost with this lock, also if a repair was lost with it since."""
    if lost is None:
        return None
    _, is_repair, token = lost.holder.partition(FOR_RUN)
    return int(token) if is_repair and token.isdecimal() else lost.fence
