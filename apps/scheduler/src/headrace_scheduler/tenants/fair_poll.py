"""What to run next: the queues of a priority in turn, one job of each, and the priorities by their shares.

A tenant with a hundred thousand jobs that are due thus gets one place of each round, like one that has ten. Of twenty
places fifteen go to `high` first, four to `normal` and one to `low`; a place whose priority has nothing goes to the
most urgent that has. Where a round begins is drawn anew for every poll: workers do not agree on anything, and a place
that comes late in a poll and is not reached before the next one is nobody's in particular.

The default queue is looked into by every poll. Any other only if it had jobs lately or a mark says that it has some
now; and now and then without that, for a row whose mark was lost.

A bucket that cannot be read while others can is left out for a while, and so are marks: one partition whose replicas
are away, or with too many tombstones, keeps nobody from the others.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

import structlog

from headrace.errors import HeadraceError
from headrace_scheduler.jobs.growing_rests import GrowingRests
from headrace_scheduler.jobs.values import Pending
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.pending_rows import TRIED_SHARE, UNREAD_REST
from headrace_scheduler.tenants.tenant_queue import DEFAULT_QUEUE, JobPriority, TenantQueue

BUCKETS_AT_A_TIME = 4
QUEUES_AT_A_TIME = 4
PAGE_MIN = 32
MARKS_EVERY = timedelta(seconds=0.2)
"""A busy worker polls many times a second, and a mark that is seen so much later delays no job by more than a poll."""
MARKS_BACK = timedelta(seconds=20)
"""Marks of so long ago are read as well: clocks differ, and what was enqueued may take a while to be seen."""
BUSY_FOR = timedelta(seconds=30)
LOOK_EVERY = timedelta(seconds=30)
"""Every queue is looked into so often without a mark: half of the minute in which an overdue row must be found."""
ALONE_WITHIN = timedelta(seconds=15)
"""A bucket fails alone if another one was read so lately: longer than a statement is sent again before it fails."""
REST_FIRST, REST_MAX = timedelta(seconds=1), timedelta(seconds=128)
"""How long such a bucket is left out; twice as long each time."""
_SHARES = (*(JobPriority.HIGH,) * 15, *(JobPriority.NORMAL,) * 4, JobPriority.LOW)
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
Read = Callable[[TenantQueue], Awaitable[list[Pending]]]
log = structlog.get_logger("scheduler")


class QueueTurns:
    """The queues of one priority during one poll. Each is read when its first turn comes, some at a time."""

    def __init__(self, queues: Sequence[TenantQueue], read: Read) -> None:
        self._unread, self._read = deque(queues), read
        self._waiting: deque[list[Pending]] = deque()
        self._served: deque[list[Pending]] = deque()

    async def next(self) -> Pending | None:
        """The next row; None: there are no more."""
        while self._unread and not self._waiting:
            turn = [self._unread.popleft() for _ in range(min(QUEUES_AT_A_TIME, len(self._unread)))]
            found = await asyncio.gather(*(self._read(queue) for queue in turn))
            self._waiting.extend(rows for rows in found if rows)
        for rows_in_turn in (self._waiting, self._served):
            if rows_in_turn:
                rows = rows_in_turn.popleft()
                row = rows.pop()
                if rows:
                    self._served.append(rows)
                return row
        return None


class FairPoll:
    """The polls of one worker. `room` says how many more jobs of a tenant it may take now; None: any number."""

    def __init__(
        self,
        tables: AllTables,
        buckets: int,
        chance: random.Random,
        room: Callable[[str], int | None] = lambda _: None,
    ) -> None:
        self._tables, self._buckets, self._chance, self._room = tables, buckets, chance, room
        self._next = chance.randrange(buckets)
        self._marks_at = _LONG_AGO
        self._marked: frozenset[int] = frozenset()
        self._busy_until: dict[int, datetime] = {}
        self._look_at: dict[int, datetime] = {}
        self._read_at = _LONG_AGO
        self._unread = GrowingRests[int](REST_FIRST, REST_MAX, tables.now)

    async def rows(self, count_max: int) -> list[Pending]:
        """Up to so many rows that are due, in the order in which they shall be taken."""
        queues = await self._queues_to_read()

        async def read(queue: TenantQueue) -> list[Pending]:
            return await self._read(queue, count_max)

        turns = {
            priority: QueueTurns([queue for queue in queues if queue.name.priority is priority], read)
            for priority in JobPriority
        }
        found: list[Pending] = []
        start = self._chance.randrange(len(_SHARES))
        while len(found) < count_max:
            first = _SHARES[(start + len(found)) % len(_SHARES)]
            row = await turns[first].next()
            for priority in JobPriority:
                row = row or await turns[priority].next()
            if row is None:
                break
            found.append(row)
        return found

    async def _queues_to_read(self) -> list[TenantQueue]:
        now, known = self._tables.now(), self._tables.queues
        if not now < self._marks_at <= now + UNREAD_REST:
            self._marks_at = now + MARKS_EVERY
            try:
                self._marked = await known.marked(now - MARKS_BACK, now)
                await known.others(self._marked)
            except HeadraceError as error:
                if not error.heals:
                    raise
                self._marks_at = now + UNREAD_REST
                log.warning("poll.queues_unread", error=str(error))
        queues = [DEFAULT_QUEUE, *filter(self._is_due, known.others_known())]
        self._chance.shuffle(queues)
        return [queue for queue in queues if self._room(queue.name.tenant) != 0]

    def _is_due(self, queue: TenantQueue) -> bool:
        assert queue.number is not None
        now, number = self._tables.now(), queue.number
        if number in self._marked or now < self._busy_until.get(number, _LONG_AGO):
            return True
        return not now < self._look_at.get(number, _LONG_AGO) <= now + LOOK_EVERY

    async def _read(self, queue: TenantQueue, count_max: int) -> list[Pending]:
        """Jobs of one queue in random order."""
        room = max(TRIED_SHARE * count_max, PAGE_MIN)
        found = await (self._default(room, count_max) if queue.number is None else self._own(queue, room))
        self._chance.shuffle(found)
        return found[: self._room(queue.name.tenant)]

    async def _own(self, queue: TenantQueue, room: int) -> list[Pending]:
        assert queue.number is not None
        now = self._tables.now()
        self._look_at[queue.number] = now + LOOK_EVERY
        found = await self._due(queue.own_buckets, room)
        if found:
            self._busy_until[queue.number] = now + BUSY_FOR
        return found

    async def _default(self, room: int, count_max: int) -> list[Pending]:
        """The buckets in turn until there is enough, beginning where the poll before ended."""
        found: list[Pending] = []
        buckets = [*range(self._buckets), *await self._tables.pending.strays(self._buckets)]
        begun_at = self._next
        for first in range(0, len(buckets), BUCKETS_AT_A_TIME):
            turn = range(begun_at + first, begun_at + min(first + BUCKETS_AT_A_TIME, len(buckets)))
            # Set before they are read: buckets that fail are not the first of the next poll.
            self._next = turn.stop % len(buckets)
            found += await self._due([buckets[number % len(buckets)] for number in turn], room)
            if len(found) >= count_max:
                break
        return found

    async def _due(self, buckets: Iterable[int], room: int) -> list[Pending]:
        """What is due in some buckets. An error if one fails and none was read lately: then it is not the bucket."""
        now = self._tables.now()
        read = [bucket for bucket in buckets if not self._unread.rests(bucket)]
        due = (self._tables.pending.due(bucket, room) for bucket in read)
        answers = dict(zip(read, await asyncio.gather(*due, return_exceptions=True), strict=True))
        found: list[Pending] = []
        for bucket, page in answers.items():
            if not isinstance(page, BaseException):
                self._unread.worked(bucket)
                self._read_at = now
                found += page
        for bucket, page in answers.items():
            if isinstance(page, BaseException):
                self._leave_out(bucket, page)
        return found

    def _leave_out(self, bucket: int, error: BaseException) -> None:
        now = self._tables.now()
        alone = timedelta() <= now - self._read_at <= ALONE_WITHIN
        if not (isinstance(error, HeadraceError) and error.heals and alone):
            raise error
        rest_s = self._unread.failed(bucket).total_seconds()
        self._tables.pending.forget_low(bucket)
        log.warning("poll.bucket_unread", bucket=bucket, rest_s=rest_s, error=str(error))
