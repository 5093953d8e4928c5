"""What is kept for how long: the reconciler deletes what has passed its time, a slice in each pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from headrace.errors import CallerError, HeadraceError
from headrace.tables import RequestKeys
from headrace_scheduler.jobs.values import JobKey
from headrace_scheduler.parts import SchedulerParts
from headrace_scheduler.reconciler.purger import START, JobPurger, PurgedPage, PurgeLimits
from headrace_scheduler.tables.audit_events import AuditEvents
from headrace_scheduler.tables.used_buckets import UsedBuckets

SWEEP_S = 3_600.0
"""Days are kept, so an hour is often enough to look for what has passed."""
KEYS_KEPT = timedelta(days=1)
ROOM = 200
"""Jobs that one pass looks at: at some milliseconds each, the reconciler's own work waits for a second or so."""
log = structlog.get_logger("scheduler")


class Retention:
    """Walks over all buckets from hour to hour."""

    def __init__(self, parts: SchedulerParts, monotonic: Callable[[], float] = time.monotonic) -> None:
        settings = parts.settings
        self._tables, self._monotonic = parts.tables, monotonic
        self._every = UsedBuckets(parts.tables.tables, parts.tables.queues, parts.installation.polled).every
        self._jobs_days, self._dead_days = settings.keep_days, settings.keep_dead_days
        self._audit_days = settings.keep_audit_days
        self._request_keys = parts.request_keys
        self._purger = JobPurger(parts.tables, parts.locks, settings.lock_ttl_s)
        # What is left of the sweep: pages of the first bucket, and the buckets behind it.
        self._next_at, self._after, self._buckets = float("-inf"), START, list[int]()

    async def step(self) -> int:
        """One slice, if it is time; how many jobs were deleted."""
        if self._monotonic() < self._next_at:
            return 0
        if not self._buckets:
            self._buckets = await self._every()
        bucket = self._buckets[0]
        limits = PurgeLimits(self._limit(self._jobs_days), self._limit(self._dead_days))
        try:
            page = await self._purger.page(bucket, replace(self._after, bucket_id=bucket), limits, ROOM)
        except HeadraceError as error:
            if not (error.heals or isinstance(error, CallerError)):
                raise
            # What it holds is kept until the next sweep; the buckets behind it are not.
            log.warning("jobs.not_purged", bucket=bucket, error=str(error))
            page = PurgedPage(0, None)
        if page.purged:
            log.info("jobs.purged", bucket=bucket, jobs=page.purged)
        await self._move(page.after)
        return page.purged

    async def _move(self, after: JobKey | None) -> None:
        """On to the next page, the next bucket, or the next sweep."""
        self._after = after or START
        if after is None:
            self._buckets = self._buckets[1:]
        if self._buckets:
            return
        self._next_at = self._monotonic() + SWEEP_S
        if isinstance(self._request_keys, RequestKeys):
            # In Cassandra they are gone by themselves.
            await self._request_keys.forget(KEYS_KEPT)
        before = self._limit(self._audit_days)
        if before is not None:
            await AuditEvents(self._tables.tables).forget(before.date())

    def _limit(self, days: float) -> datetime | None:
        """What ended before goes; 0 days: nothing ever does."""
        return self._tables.now() - timedelta(days=days) if days else None
