"""Cancels of running jobs, where every worker sees them soon: one small partition, read once a second by each.

The column `cancel_asked_at` of the job is what counts, and it is read at each renewal. This only says that it is time
to look, so what is lost here costs time.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from headrace_scheduler.jobs.schedule_words import whole_ms
from headrace_scheduler.tables.job_tables import JobTables, as_id

KEPT = timedelta(minutes=1)
"""More than a renewal takes at the usual LOCK_TTL_MS, and than clocks differ."""
REQUESTS_MAX = 1_000

CancelRequest = tuple[datetime, UUID]


class CancelRequests:
    """Statements about asked cancels, as calls."""

    def __init__(self, tables: JobTables) -> None:
        self._tables = tables

    async def add(self, job_id: UUID, now: datetime) -> None:
        """Older ones are forgotten with it."""
        await self._tables.rows("cancel_requests_delete", before=whole_ms(now - KEPT))
        await self._tables.rows("cancel_request_add", asked_at=whole_ms(now), job_id=job_id)

    async def latest(self, now: datetime) -> set[CancelRequest]:
        found = await self._tables.rows("cancel_requests", since=whole_ms(now - KEPT), room=REQUESTS_MAX)
        return {(asked_at, as_id(job_id)) for asked_at, job_id in found}
