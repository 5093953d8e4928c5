"""From a decided moment to its job: written as often as it takes until it is confirmed, and one job all the same.

The moment has a row of its own, written on the condition that there is none, and the id of the job follows from it. A
process that finds the moment open does all of it again: the row stays as the first has written it, and with it the id,
the time and the write time of the job's rows, so a repeat writes the same rows, or finds that the job has begun and
writes nothing. The job's lock is held meanwhile, so neither a worker nor the reconciler comes between the look and the
write.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from uuid import UUID, uuid4

import structlog

from headrace.errors import TryAgain
from headrace_scheduler.cron.cron_schedule import CronFire, CronJob, job_id_of
from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.jobs.values import Job, JobKey, JobStatus
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.cron_rows import CronRows
from headrace_scheduler.tables.job_tables import micros
from headrace_scheduler.work.job_locks import JobLocks

HOLD_S = 5.0
"""Four statements take milliseconds; a process that dies among them delays its job by no more than this."""
log = structlog.get_logger("scheduler")


class FireCreator:
    """Creates the jobs of moments that are open."""

    def __init__(
        self, tables: AllTables, locks: JobLocks, buckets: int, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._tables, self._locks, self._buckets, self._monotonic = tables, locks, buckets, monotonic
        self._rows = CronRows(tables.tables, tables.unread)
        self._holder = f"cron:{uuid4()}"

    async def finish(self, schedule_id: UUID, moment: datetime) -> bool:
        """Create the job of an open moment, and confirm it. False: another process is about it."""
        wanted = CronFire(moment, job_id_of(schedule_id, moment), whole_ms(self._tables.now()))
        fire = await self._rows.fire(schedule_id, wanted)
        job = await self._rows.job(schedule_id)
        if job is None or not await self._created(fire, job):
            return False
        await self._rows.confirm(schedule_id, moment)
        log.info("schedule.fired", schedule=str(schedule_id), moment=moment.isoformat(), job=str(fire.job_id))
        return True

    async def _created(self, fire: CronFire, job: CronJob) -> bool:
        if await self._has_begun(fire):
            return True
        began = self._monotonic()
        leased = await self._locks.take(fire.job_id, self._holder, HOLD_S)
        if leased is None:
            return False
        try:
            if not await self._has_begun(fire):
                await self._create(fire, job, began + HOLD_S / 2)
        finally:
            await self._locks.release(fire.job_id, leased.lease.fence)
        return True

    async def _has_begun(self, fire: CronFire) -> bool:
        """Whether anybody has written a status since the fire."""
        found = await self._tables.jobs.find(fire.job_id)
        return found is not None and found.status_us > micros(fire.fired_at)

    async def _create(self, fire: CronFire, job: CronJob, until: float) -> None:
        queue = await self._tables.queues.queue(job.queue)
        key = JobKey(queue.bucket(fire.job_id, self._buckets), fire.scheduled_time, fire.job_id)
        new = Job(key, job.payload, JobStatus.PENDING, 0, micros(fire.fired_at), job.terms)
        await self._tables.jobs.add(new)
        await self._tables.queues.mark(key.bucket_id, key.scheduled_time)
        # After a pause as long as this the lock may be another's, and the job may have run.
        if self._monotonic() > until:
            raise TryAgain(f"job {fire.job_id} of a schedule took too long to create")
        await self._rows.enqueue(key, job.payload, fire.fired_at)
