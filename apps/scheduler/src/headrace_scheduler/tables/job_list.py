"""Jobs for people: by time, the latest first, over all buckets.

A page ends between two milliseconds, so that a moment is all that a cursor must hold: ids have another order in each
database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from headrace_scheduler.jobs.values import JobKey
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.job_rows import JobSummary, ScannedJob
from headrace_scheduler.tables.used_buckets import UsedBuckets
from headrace_scheduler.tenants.tenant_queue import DEFAULT_TENANT, QueueName

SCANNED_MAX = 20_000
"""How many rows one page may look at; a page that found less than it could says where to go on."""
ROOM_GROWTH = 4


@dataclass(frozen=True, slots=True)
class JobQuestion:
    """`since` and `before` bound the scheduled time. Without a tenant jobs of all are meant."""

    since: datetime
    before: datetime
    status: str | None = None
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job as a list shows it."""

    row: ScannedJob
    queue: QueueName
    summary: JobSummary


class JobList:
    """Pages of jobs. `polled` is how many buckets the default queue has."""

    def __init__(self, tables: AllTables, polled: int) -> None:
        self._jobs, self._queues = tables.jobs, tables.queues
        self._every = UsedBuckets(tables.tables, tables.queues, polled).every

    async def page(self, question: JobQuestion, limit: int) -> tuple[list[ScannedJob], datetime | None]:
        """About `limit` jobs, and the moment before which the next page begins; None: there are no more."""
        found: list[ScannedJob] = []
        before, looked_at, room = question.before, 0, limit
        buckets = await self._buckets(question.tenant)
        while True:
            rows, frontier = await self._read(buckets, before, question.since, room)
            looked_at += len(rows)
            if not rows and frontier is not None:
                # More jobs of one millisecond than fit on a page.
                room *= ROOM_GROWTH
                continue
            found += [row for row in rows if question.status in (None, row.status)]
            if len(found) >= limit:
                last = found[limit - 1].key.scheduled_time
                kept = [row for row in found if row.key.scheduled_time >= last]
                return kept, last if frontier is not None or len(kept) < len(found) else None
            if frontier is None:
                return found, None
            before = rows[-1].key.scheduled_time
            if looked_at >= SCANNED_MAX:
                return found, before

    async def told(self, rows: Sequence[ScannedJob]) -> list[ListedJob]:
        """A page with what its rows do not say: one small read for each."""
        summaries = await asyncio.gather(*(self._jobs.summary(row.key.job_id) for row in rows))
        queues = (self._queues.known(row.key.bucket_id).name for row in rows)
        return [ListedJob(*each) for each in zip(rows, queues, summaries, strict=True)]

    async def _buckets(self, tenant: str) -> list[int]:
        """Those of a tenant's queues; what no queue has counts as the default tenant's."""
        queues = await self._queues.of_tenant(tenant) if tenant else []
        if tenant not in ("", DEFAULT_TENANT):
            return [bucket for queue in queues for bucket in queue.own_buckets]
        every = await self._every()
        return [bucket for bucket in every if tenant in ("", self._queues.known(bucket).name.tenant)]

    async def _read(
        self, buckets: Sequence[int], before: datetime, since: datetime, room: int
    ) -> tuple[list[ScannedJob], datetime | None]:
        """Jobs that surely are the latest before a moment, and where that stops being sure (None: these are all)."""
        starts = [JobKey(bucket, before, UUID(int=0)) for bucket in buckets]
        pages = await asyncio.gather(*(self._jobs.scan_back(start.bucket_id, start, since, room) for start in starts))
        frontier = max((page[-1].key.scheduled_time for page in pages if len(page) >= room), default=None)
        rows = [row for page in pages for row in page if frontier is None or row.key.scheduled_time > frontier]
        rows.sort(key=lambda row: (row.key.scheduled_time, row.key.job_id), reverse=True)
        return rows, frontier
