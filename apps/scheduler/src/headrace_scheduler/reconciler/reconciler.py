"""The reconciler: one per installation, by a lease, it finds jobs that no worker will find by itself.

- *Left half done*: a row in `jobs_sharded` that has not ended, has no pending row, and whose lock is free or expired.
  A worker died after it had deleted the pending row, or whoever created the job before it had written one. The job is
  put back while its lock is held, so no worker is at it.
- *Overdue*: pending rows further back than workers look, or in buckets where nobody looks. The span is marked, and
  workers look there.

Whoever dies in a run leaves an expired lock, so expired locks are looked at first: they are few, however many jobs
there are. What left none is found by reading every bucket. Rows up to the first that has not ended are left out of the
next passes, until the next full one: what has ended stays so unless somebody runs it again.
"""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import structlog

from headrace.errors import CallerError, HeadraceError
from headrace.services import NamedLease, Term, leader, rest
from headrace_scheduler.jobs.values import ENDED, JobKey, job_of
from headrace_scheduler.parts import SchedulerParts
from headrace_scheduler.reconciler.dead_count import DeadCount
from headrace_scheduler.reconciler.repair import Repairer
from headrace_scheduler.reconciler.retention import Retention
from headrace_scheduler.reconciler.stray_buckets import StrayBuckets
from headrace_scheduler.tables.job_rows import ScannedJob
from headrace_scheduler.tables.job_tables import micros
from headrace_scheduler.tables.pending_rows import LONG_AGO, LOW_WATER
from headrace_scheduler.tenants.queue_rounds import QueueRounds
from headrace_scheduler.work.uncounted_leases import UncountedLeases

LEASE = "scheduler:reconciler"
PASS_S = 5.0
FULL_S = 10.0
# What takes long is not done again before so many times as long have passed.
REST_SHARE = 10.0
PAGE = 2_000
LONG_AHEAD = timedelta(days=36_500)
YOUNG = timedelta(seconds=3)
"""A row whose status is younger than this may be between two statements of its writer."""
log = structlog.get_logger("scheduler")


class JobReconciler:
    """Looks over the tables for as long as its process leads."""

    def __init__(self, parts: SchedulerParts) -> None:
        self._parts, self._tables = parts, parts.tables
        self._repairer = Repairer(parts, f"reconciler:{uuid4()}")
        self._retention, self._dead_count = Retention(parts), DeadCount(parts)
        self._settled: dict[int, datetime] = {}
        self._first = 0
        self._rounds = QueueRounds(parts.tables, parts.installation.polled)
        self._strays = StrayBuckets(parts.tables, parts.installation.polled)
        # Both take the longer the more there is, and so much the longer they are left alone.
        self._full_at = self._locks_at = float("-inf")

    async def run(self, stop: asyncio.Event) -> None:
        lease = NamedLease(UncountedLeases(self._parts.leases, self._parts.metrics), LEASE)

        async def loop(term: Term) -> None:
            self._settled.clear()
            self._rounds.begin_anew()
            try:
                while not stop.is_set():
                    await self._look()
                    await rest(stop, PASS_S)
            finally:
                self._dead_count.stop()

        await leader(lease, loop, stop)

    async def _look(self) -> None:
        """What fails is tried again by the next pass, and keeps nothing else from being done in this one."""
        for step in (self.look, self._retention.step, self._dead_count.step):
            try:
                await step()
            except HeadraceError as error:
                if not error.heals:
                    raise
                log.warning("reconciler.failing", error=str(error))

    async def look(self) -> int:
        """One pass over all buckets; how many jobs were put back. One that cannot be read is the last of the next pass,
        so that it never keeps the others from being looked at; neither do locks that cannot be."""
        try:
            put_back = await self._lost_locks()
        except HeadraceError as error:
            if not error.heals:
                raise
            put_back = 0
            log.warning("reconciler.locks_unread", error=str(error))
        began = time.monotonic()
        full = began >= self._full_at
        if full:
            self._settled.clear()
        buckets = [*await self._rounds.buckets(), *await self._strays.buckets()]
        try:
            for bucket in sorted(buckets, key=lambda bucket: (bucket < self._first, bucket)):
                self._first = bucket + 1
                put_back += await self._bucket(bucket)
        finally:
            # Also of a pass that was cut off: what it has not come to is read from the beginning by the next one.
            if full:
                ended = time.monotonic()
                self._full_at = ended + max(FULL_S, REST_SHARE * (ended - began))
        return put_back

    async def _lost_locks(self) -> int:
        """Jobs whose lock has expired. A lock that was left behind by a job that waits or has ended is let go."""
        began, put_back = time.monotonic(), 0
        if began < self._locks_at:
            return 0
        lost = [lease.name async for lease in self._parts.leases.leases() if lease.free]
        for job_id in filter(None, map(job_of, lost)):
            job = await self._tables.jobs.find(job_id)
            if job is not None:
                put_back += await self._repaired(job.key, job.status)
        ended = time.monotonic()
        self._locks_at = ended + REST_SHARE * (ended - began)
        return put_back

    async def _bucket(self, bucket: int) -> int:
        waiting = await self._waiting(bucket)
        put_back, settled = 0, True
        after, until = self._start(bucket), self._tables.now() + timedelta(minutes=1)
        while page := await self._tables.jobs.scan(bucket, after, until, PAGE):
            for row in page:
                if row.status in ENDED:
                    continue
                if settled:
                    settled, self._settled[bucket] = False, row.key.scheduled_time
                if row.key.job_id not in waiting and not self._is_young(row):
                    put_back += await self._repaired(row.key, row.status)
            after = page[-1].key
            if len(page) < PAGE:
                break
        if settled:
            self._settled[bucket] = self._tables.now() - LOW_WATER
        self._rounds.saw(bucket, bool(waiting) or not settled)
        return put_back

    async def _waiting(self, bucket: int) -> set[UUID]:
        """The jobs with a pending row. The span of those that lie too far back, or where nobody looks, is marked."""
        now, polled = self._tables.now(), self._parts.installation.polled
        until = now + LONG_AHEAD if self._tables.queues.is_stray(bucket, polled) else now - LOW_WATER
        ahead = timedelta(milliseconds=self._parts.settings.backoff_max_ms) + LOW_WATER
        found: set[UUID] = set()
        overdue: list[datetime] = []
        async for page in self._tables.pending.pages(bucket, now + ahead):
            found.update(row.job_id for row in page)
            late = [row.scheduled_time for row in page if row.scheduled_time <= until]
            overdue = [min(overdue + late), max(overdue + late)] if late else overdue
        if overdue:
            await self._tables.pending.mark_overdue(bucket, overdue[0], overdue[1])
        return found

    def _start(self, bucket: int) -> JobKey:
        """Before the first row that had not ended when this was last looked at."""
        return JobKey(
            bucket, self._settled.get(bucket, LONG_AGO + timedelta(seconds=1)) - timedelta(milliseconds=1), UUID(int=0)
        )

    def _is_young(self, row: ScannedJob) -> bool:
        # One that is dated further ahead than that was written by a wrong clock, and would be young for as long.
        return abs(micros(self._tables.now()) - row.status_us) < YOUNG // timedelta(microseconds=1)

    async def _repaired(self, key: JobKey, status: str) -> bool:
        """A job that cannot be judged now is found again by the next pass. So is one whose row no statement can have
        the values for, as another program may have written it: the others must not suffer for it."""
        try:
            done = await self._repairer.repair(key)
        except HeadraceError as error:
            if not (error.heals or isinstance(error, CallerError)):
                raise
            log.warning("job.not_judged", job=str(key.job_id), error=str(error))
            return False
        if done:
            log.warning("job.put_back", job=str(key.job_id), status=status, became=done)
        return bool(done)
