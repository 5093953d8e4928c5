"""What shall run: `jobs_pending_by_bucket`, a queue on a table that keeps tombstones.

A poll from the beginning of a bucket would pass the tombstone of every job that has run for an hour. So each process
looks from a *low-water mark* on, which follows five minutes behind the clock and stays in front of what it has seen
waiting. Rows dated further back (by another program, or before this process began to look) are found by the reconciler,
which searches the past in slices of time and marks the span where it found some; a poll looks there as well.

Rows whose lock somebody else has (`RefusedJobs`) are left out, and if that leaves little of a page, what lies behind it
is read: one page more in each poll, from where the poll before ended. So however many of them there are, they hide
nothing for long. Those that have been refused for a minute do not keep the low-water mark back either.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

import structlog

from headrace.errors import HeadraceError
from headrace_scheduler.jobs.values import Pending
from headrace_scheduler.tables.job_tables import JobTables, Write, as_id, micros
from headrace_scheduler.tables.refused_jobs import RefusedJobs
from headrace_scheduler.tenants.queue_registry import QueueRegistry

LOW_WATER = timedelta(minutes=5)
"""How far behind the clock a poll begins: more than clocks differ and enqueuing takes, little enough of tombstones."""
MARKS_EVERY = timedelta(seconds=5)
"""How often a process asks for the reconciler's marks."""
UNREAD_REST = timedelta(seconds=20)
"""How long marks, or a span, that cannot be read are left alone: nobody waits for them in every poll."""
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
SLICE_MIN, SLICE_GROWTH = timedelta(minutes=10), 4
PAGE = 1_000
TRIED_SHARE = 4
"""A page is so many times what a worker tries of it, so that workers that see the same one try different rows."""
_MOMENT = timedelta(milliseconds=1)
Span = tuple[datetime, datetime]
Spot = tuple[int, bool]
"""A bucket, and whether the reconciler's span in it is meant."""
log = structlog.get_logger("scheduler")


class PendingRows:
    """Statements about pending rows, as calls, and the marks of one process."""

    def __init__(
        self,
        tables: JobTables,
        now: Callable[[], datetime],
        page: int = PAGE,
        queues: QueueRegistry | None = None,
        refused: RefusedJobs | None = None,
    ) -> None:
        self._tables, self._now, self._page_rows = tables, now, page
        self._queues = queues or QueueRegistry(tables, now)
        self._refused = refused or RefusedJobs(now)
        self._low: dict[int, datetime] = {}
        # Behind which row a poll goes on where the first page has little to try.
        self._places: dict[Spot, Pending] = {}
        self._overdue: dict[int, Span] = {}
        self._unread_until: dict[int, datetime] = {}
        self._marked: list[int] = []
        self._marks_until, self._marking = LONG_AGO, asyncio.Lock()

    async def add(self, pending: Pending) -> None:
        await self._tables.together(await self.addition(pending))

    async def addition(self, pending: Pending) -> Write:
        """The write that adds a row; its queue has a mark by then."""
        await self._queues.mark(pending.bucket_id, pending.scheduled_time)
        written_us = pending.written_us or micros(self._now())
        return "pending_add", {**_key(pending), "payload": pending.payload, "written_us": written_us}

    async def read(self, pending: Pending) -> Pending | None:
        """The row again; None: it is gone."""
        found = await self._tables.rows("pending_row", **_key(pending))
        if not found:
            return None
        payload, written_us = found[0]
        return Pending(pending.bucket_id, pending.scheduled_time, pending.job_id, payload, written_us or 0)

    async def remove(self, pending: Pending) -> None:
        await self._tables.together(self.removal(pending))

    def removal(self, pending: Pending) -> Write:
        """The write that removes a row, also one that was written by a clock that is ahead."""
        return "pending_delete", {**_key(pending), "written_us": max(micros(self._now()), pending.written_us + 1)}

    async def due(self, bucket_id: int, room: int) -> list[Pending]:
        """What is due in a bucket and may be tried: about `room` rows, or all."""
        now = self._now()
        low = min(self._low.get(bucket_id, now), now - LOW_WATER)
        seen = await self._between(bucket_id, low, now, room)
        waiting = next((row.scheduled_time for row in seen if not self._refused.is_stuck(row)), now)
        self._low[bucket_id] = min(now - LOW_WATER, waiting - _MOMENT)
        found = await self._tried((bucket_id, False), seen, now, room)
        # What lies further back gets a share of the room also where there is always enough of the rest.
        return [*await self._late(bucket_id, low, max(room - len(found), room // TRIED_SHARE)), *found]

    def forget_low(self, bucket_id: int) -> None:
        """Begin close behind the clock again; what waits before that is the reconciler's to find."""
        self._low.pop(bucket_id, None)

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

    async def _late(self, bucket_id: int, low: datetime, room: int) -> list[Pending]:
        """What is due in the reconciler's span. A span that cannot be read keeps nobody from the rest."""
        now = self._now()
        span = await self._overdue_span(bucket_id, now)
        if span is None or now < self._unread_until.get(bucket_id, LONG_AGO) <= now + UNREAD_REST:
            return []
        until = min(span[1], low)
        try:
            seen = await self._between(bucket_id, span[0] - _MOMENT, until, room)
            if not seen:
                self._overdue.pop(bucket_id, None)
            return await self._tried((bucket_id, True), seen, until, room)
        except HeadraceError as error:
            if not error.heals:
                raise
            self._unread_until[bucket_id] = now + UNREAD_REST
            log.warning("poll.overdue_unread", bucket=bucket_id, error=str(error))
            return []

    async def _tried(self, spot: Spot, page: list[Pending], until: datetime, room: int) -> list[Pending]:
        """What may be tried of a page of up to `room` rows, and of what lies behind it if that is little."""
        enough = max(1, room // TRIED_SHARE)
        found = self._refused.tried(page, enough)
        if len(page) < room or len(found) >= enough:
            return found
        last, place = page[-1], self._places.pop(spot, None)
        if place is None or not last.scheduled_time <= place.scheduled_time <= until:
            place = last
        behind = await self._page(spot[0], place.scheduled_time, place.job_id, until)
        if len(behind) >= self._page_rows:
            self._places[spot] = behind[-1]
        return [*found, *self._refused.tried(behind, enough)]

    async def _between(self, bucket_id: int, after: datetime, until: datetime, room: int) -> list[Pending]:
        found = await self._tables.rows("pending_due", bucket_id=bucket_id, after=after, until=until, room=room)
        return [Pending(bucket_id, scheduled_time, as_id(job_id)) for scheduled_time, job_id in found]

    async def _page(self, bucket_id: int, after_time: datetime, after_id: UUID, until: datetime) -> list[Pending]:
        room = {"until": until, "room": self._page_rows}
        found = await self._tables.rows(
            "pending_scan", bucket_id=bucket_id, after_time=after_time, after_id=after_id, **room
        )
        return [Pending(bucket_id, scheduled_time, as_id(job_id)) for scheduled_time, job_id in found]

    async def strays(self, polled: int) -> list[int]:
        """Buckets with a mark that are neither the installation's nor a queue's: nobody would look there else."""
        await self._read_marks(self._now())
        return [bucket for bucket in self._marked if self._queues.is_stray(bucket, polled)]

    async def _overdue_span(self, bucket_id: int, now: datetime) -> Span | None:
        await self._read_marks(now)
        return self._overdue.get(bucket_id)

    async def _read_marks(self, now: datetime) -> None:
        """Marks that cannot be read stay as they are for a while: they are hints, and keep nobody from the rest."""
        # Of several buckets that are polled at once one asks, and the others wait for the answer.
        async with self._marking:
            # Not for as long as the clock was set back.
            if now < self._marks_until <= now + UNREAD_REST:
                return
            self._marks_until = now + MARKS_EVERY
            try:
                found = await self._tables.rows("overdue_marks")
            except HeadraceError as error:
                if not error.heals:
                    raise
                self._marks_until = now + UNREAD_REST
                log.warning("poll.marks_unread", error=str(error))
                return
            self._overdue = {bucket: (first, last) for bucket, first, last in found if first is not None}
            self._marked = list(self._overdue)


def _key(pending: Pending) -> dict[str, int | datetime | UUID]:
    return {"bucket_id": pending.bucket_id, "scheduled_time": pending.scheduled_time, "job_id": pending.job_id}
