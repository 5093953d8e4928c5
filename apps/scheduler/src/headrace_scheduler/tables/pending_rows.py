"""What shall run: `jobs_pending_by_bucket`, a queue on a table that keeps tombstones.

A poll from the beginning of a bucket would pass the tombstone of every job that has run for an hour. So each process
looks from a *low-water mark* on, which follows five minutes behind the clock and stays in front of what it has seen
waiting. Rows dated further back (by another program, or before this process began to look) are found by the reconciler,
which searches the past in slices of time and marks the span where it found some; a poll looks there as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

from headrace_scheduler.jobs.values import Pending
from headrace_scheduler.tables.job_tables import JobTables, as_id, micros

LOW_WATER = timedelta(minutes=5)
"""How far behind the clock a poll begins: more than clocks differ and enqueuing takes, little enough of tombstones."""
MARKS_S = 5.0
"""How often a process asks for the reconciler's marks."""
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
SLICE_MIN, SLICE_GROWTH = timedelta(minutes=10), 4
PAGE = 1_000
_MOMENT = timedelta(milliseconds=1)
Span = tuple[datetime, datetime]


class PendingRows:
    """Statements about pending rows, as calls, and the marks of one process."""

    def __init__(self, tables: JobTables, now: Callable[[], datetime], page: int = PAGE) -> None:
        self._tables, self._now, self._page_rows = tables, now, page
        self._low: dict[int, datetime] = {}
        self._overdue: dict[int, Span] = {}
        self._marks_until, self._marking = LONG_AGO, asyncio.Lock()

    async def add(self, pending: Pending) -> None:
        await self._tables.rows(
            "pending_add",
            bucket_id=pending.bucket_id,
            scheduled_time=pending.scheduled_time,
            job_id=pending.job_id,
            payload=pending.payload,
            written_us=pending.written_us or micros(self._now()),
        )

    async def read(self, pending: Pending) -> Pending | None:
        """The row again; None: it is gone."""
        found = await self._tables.rows("pending_row", **_key(pending))
        if not found:
            return None
        payload, written_us = found[0]
        return Pending(pending.bucket_id, pending.scheduled_time, pending.job_id, payload, written_us or 0)

    async def remove(self, pending: Pending) -> None:
        """Also one that was written by a clock that is ahead."""
        written_us = max(micros(self._now()), pending.written_us + 1)
        await self._tables.rows("pending_delete", **_key(pending), written_us=written_us)

    async def due(self, bucket_id: int, room: int) -> list[Pending]:
        """What is due in a bucket, the earliest first."""
        now = self._now()
        low = self._low.get(bucket_id, now - LOW_WATER)
        found = await self._between(bucket_id, low, now, room)
        self._low[bucket_id] = min([now - LOW_WATER, *(row.scheduled_time - _MOMENT for row in found[:1])])
        if len(found) < room and (span := await self._overdue_span(bucket_id, now)) is not None:
            late = await self._between(bucket_id, span[0] - _MOMENT, min(span[1], low), room - len(found))
            if not late:
                self._overdue.pop(bucket_id, None)
            found = [*late, *found]
        return found

    async def pages(self, bucket_id: int, until: datetime) -> AsyncIterator[list[Pending]]:
        """Every row of a bucket up to a time, page by page, in slices of time that are the longer the older they are:
        what has run lately left tombstones, and a server refuses to read over too many."""
        edges, back, now = [until], SLICE_MIN, self._now()
        while now - back > LONG_AGO:
            edges.append(now - back)
            back *= SLICE_GROWTH
        edges.append(LONG_AGO)
        for upper, lower in pairwise(edges):
            after_time, after_id = lower, UUID(int=0)
            while page := await self._page(bucket_id, after_time, after_id, upper):
                yield page
                after_time, after_id = page[-1].scheduled_time, page[-1].job_id
                if len(page) < self._page_rows:
                    break

    async def mark_overdue(self, bucket_id: int, first: datetime, last: datetime) -> None:
        """Let every worker look for rows in this span."""
        await self._tables.rows("overdue_mark", bucket_id=bucket_id, first_time=first, last_time=last)

    async def _between(self, bucket_id: int, after: datetime, until: datetime, room: int) -> list[Pending]:
        found = await self._tables.rows("pending_due", bucket_id=bucket_id, after=after, until=until, room=room)
        return [Pending(bucket_id, scheduled_time, as_id(job_id)) for scheduled_time, job_id in found]

    async def _page(self, bucket_id: int, after_time: datetime, after_id: UUID, until: datetime) -> list[Pending]:
        room = {"until": until, "room": self._page_rows}
        found = await self._tables.rows(
            "pending_scan", bucket_id=bucket_id, after_time=after_time, after_id=after_id, **room
        )
        return [Pending(bucket_id, scheduled_time, as_id(job_id)) for scheduled_time, job_id in found]

    async def _overdue_span(self, bucket_id: int, now: datetime) -> Span | None:
        # Of several buckets that are polled at once one asks, and the others wait for the answer.
        async with self._marking:
            if now >= self._marks_until:
                found = await self._tables.rows("overdue_marks")
                self._overdue = {bucket: (first, last) for bucket, first, last in found if first is not None}
                self._marks_until = now + timedelta(seconds=MARKS_S)
        return self._overdue.get(bucket_id)


def _key(pending: Pending) -> dict[str, int | datetime | UUID]:
    return {"bucket_id": pending.bucket_id, "scheduled_time": pending.scheduled_time, "job_id": pending.job_id}
