"""Jobs that failed as often as they may: `jobs_dlq`."""

from __future__ import annotations

from uuid import UUID

from headrace.tables import Row
from headrace_scheduler.jobs.values import DeadJob
from headrace_scheduler.tables.job_tables import JobTables, as_id

COUNTED_PAGE = 1_000
_FIRST_PLACE = -(2**63)


class DeadJobs:
    """Statements about dead jobs, as calls."""

    def __init__(self, tables: JobTables) -> None:
        self._tables = tables

    async def add(self, dead: DeadJob) -> None:
        """The newest failure replaces the one before."""
        await self._tables.rows(
            "dead_add",
            job_id=dead.job_id,
            attempts=dead.attempts,
            last_error=dead.last_error,
            last_attempt_at=dead.last_attempt_at,
            payload=dead.payload,
            error_class=dead.error_class,
            stack=dead.stack,
            correlation_id=dead.correlation_id,
        )

    async def find(self, job_id: UUID) -> DeadJob | None:
        found = await self._tables.rows("dead_row", job_id=job_id)
        return _dead(found[0]) if found else None

    async def page(self, after: UUID | None, room: int) -> list[DeadJob]:
        """In an order that is always the same, and no other."""
        if after is None:
            found = await self._tables.rows("dead_first", room=room)
        else:
            found = await self._tables.rows("dead_after", after=after, room=room)
        return [_dead(row) for row in found]

    async def count(self, most: int) -> int:
        """How many there are, or `most`."""
        after, count = _FIRST_PLACE, 0
        while count < most:
            found = await self._tables.rows("dead_places", after=after, room=COUNTED_PAGE)
            count += len(found)
            if len(found) < COUNTED_PAGE:
                break
            after = found[-1][0]
        return min(count, most)

    async def remove(self, job_id: UUID) -> None:
        await self._tables.rows("dead_delete", job_id=job_id)


def _dead(row: Row) -> DeadJob:
    job_id, attempts, last_error, last_attempt_at, *rest = row
    return DeadJob(as_id(job_id), attempts or 0, last_error or "", last_attempt_at, *rest)
