"""Jobs for people: by time, the latest first, over all buckets.

A page ends between two milliseconds, so that a moment is all that a cursor must hold: ids have another order in each
database.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from headrace_scheduler.jobs.values import JobKey
from headrace_scheduler.tables.job_rows import JobRows, ScannedJob

SCANNED_MAX = 20_000
"""How many rows one page may look at; a page that found less than it could says where to go on."""
ROOM_GROWTH = 4


@dataclass(frozen=True, slots=True)
class JobQuestion:
    """`since` and `before` bound the scheduled time."""

    since: datetime
    before: datetime
    status: str | None = None


class JobList:
    """Pages of jobs."""

    def __init__(self, jobs: JobRows, buckets: int) -> None:
        self._jobs, self._buckets = jobs, buckets

    async def page(self, question: JobQuestion, limit: int) -> tuple[list[ScannedJob], datetime | None]:
        """About `limit` jobs, and the moment before which the next page begins; None: there are no more."""
        found: list[ScannedJob] = []
        before, looked_at, room = question.before, 0, limit
        while True:
            rows, frontier = await self._read(before, question.since, room)
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

    async def _read(self, before: datetime, since: datetime, room: int) -> tuple[list[ScannedJob], datetime | None]:
        """Jobs that surely are the latest before a moment, and where that stops being sure (None: these are all)."""
        starts = [JobKey(bucket, before, UUID(int=0)) for bucket in range(self._buckets)]
        pages = await asyncio.gather(*(self._jobs.scan_back(start.bucket_id, start, since, room) for start in starts))
        frontier = max((page[-1].key.scheduled_time for page in pages if len(page) >= room), default=None)
        rows = [row for page in pages for row in page if frontier is None or row.key.scheduled_time > frontier]
        rows.sort(key=lambda row: (row.key.scheduled_time, row.key.job_id), reverse=True)
        return rows, frontier
