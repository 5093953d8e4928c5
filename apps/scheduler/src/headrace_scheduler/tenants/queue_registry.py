"""Which queues there are, `tenant_queues`, and which of them have jobs due when, `queue_marks`.

A queue's number is found by probing: from a number that follows from its name to the first that is free or its own.
A row is written on the condition that there is none and is never deleted, so every process comes to the same number,
and no two queues to one.

A worker that looked into every bucket of every tenant all the time would do little else. So before a pending row is
written outside the default queue, a mark says in which ten seconds it is due; a poll reads the marks of these seconds
and looks only where there is one. A mark is a hint: all queues are looked into now and then without any.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from headrace.errors import TooLarge
from headrace.tables import Row
from headrace_scheduler.tables.job_tables import JobTables
from headrace_scheduler.tables.unread_rows import UnreadRows
from headrace_scheduler.tenants.tenant_queue import (
    DEFAULT_QUEUE,
    NUMBERS,
    JobPriority,
    QueueName,
    TenantQueue,
    number_of,
)

TABLE = "tenant_queues"
QUEUES_MAX = 10_000
"""Every process knows all of them, and the reconciler reads all of them."""
WINDOW_S = 10
KNOWN_FOR = timedelta(seconds=30)
"""How long a process works with the queues it has read; one that it does not know is read at once."""
MARKS_KEPT = timedelta(days=2)
MARKED_MAX = 10_000
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class QueueRegistry:
    """Statements about queues, as calls, and what this process knows of them."""

    def __init__(self, tables: JobTables, now: Callable[[], datetime], unread: UnreadRows | None = None) -> None:
        self._tables, self._now, self._unread = tables, now, unread or UnreadRows()
        # Queues of a newer version: theirs are nobody's strays.
        self._foreign: set[int] = set()
        self._by_number: dict[int, TenantQueue] = {}
        self._by_name = {DEFAULT_QUEUE.name: DEFAULT_QUEUE}
        self._read_until = _LONG_AGO
        # Marks that this process has written, the oldest first: one for each queue and ten seconds is enough.
        self._marked: dict[tuple[int, datetime], None] = {}
        self._forgotten_day = ""

    async def queue(self, name: QueueName) -> TenantQueue:
        """The queue of this name. The first call of all makes it."""
        if name not in self._by_name:
            await self._read()
        if name not in self._by_name:
            if len(self._by_number) >= QUEUES_MAX:
                raise TooLarge(
                    f"there are {QUEUES_MAX:,} queues of tenants, which is queues_max", "use an older tenant"
                )
            await self._make(name)
        return self._by_name[name]

    async def of_tenant(self, tenant: str) -> list[TenantQueue]:
        """The queues of one tenant that were ever made."""
        names = [QueueName(tenant, priority) for priority in JobPriority]
        if not self._by_name.keys() >= set(names):
            await self._read()
        return [self._by_name[name] for name in names if name in self._by_name]

    async def of_bucket(self, bucket_id: int) -> TenantQueue:
        """Whose a bucket is. One that no queue has counts as the default queue's."""
        number = number_of(bucket_id)
        if number is not None and number not in self._by_number:
            await self._read()
        return self.known(bucket_id)

    def known(self, bucket_id: int) -> TenantQueue:
        """The same by what was read last."""
        number = number_of(bucket_id)
        return DEFAULT_QUEUE if number is None else self._by_number.get(number, DEFAULT_QUEUE)

    def is_stray(self, bucket_id: int, polled: int) -> bool:
        """Whether a bucket is neither one of the installation's nor of a queue that was read."""
        unknown = self.known(bucket_id) is DEFAULT_QUEUE and number_of(bucket_id) not in self._foreign
        return not 0 <= bucket_id < polled and unknown

    async def others(self, needed: frozenset[int] = frozenset()) -> list[TenantQueue]:
        """All but the default queue, with those of these numbers, if they were made by now."""
        now = self._now()
        # Not for as long as the clock was set back.
        if not now < self._read_until <= now + KNOWN_FOR or not needed <= self._by_number.keys() | self._foreign:
            await self._read()
        return self.others_known()

    def others_known(self) -> list[TenantQueue]:
        """The same by what was read last."""
        return list(self._by_number.values())

    async def mark(self, bucket_id: int, due_at: datetime) -> None:
        """A job of this bucket is due then: whoever polls at that time looks there."""
        number = number_of(bucket_id)
        if number is None:
            return
        now = self._now()
        mark = (number, _window(max(due_at, now)))
        if mark in self._marked:
            return
        ttl_s = round((mark[1] - now + MARKS_KEPT).total_seconds())
        await self._tables.rows("queue_mark", day=_day(mark[1]), due_at=mark[1], number=number, ttl_s=ttl_s)
        self._marked[mark] = None
        if len(self._marked) > MARKED_MAX:
            del self._marked[next(iter(self._marked))]

    async def marked(self, since: datetime, until: datetime) -> frozenset[int]:
        """The numbers of queues with jobs that are due in this time."""
        await self._forget(_day(until - MARKS_KEPT))
        since, found = _window(since), set[int]()
        for day in sorted({_day(since), _day(until)}):
            found |= await self._marked_on(day, since, until)
        return frozenset(found)

    async def _marked_on(self, day: str, since: datetime, until: datetime) -> set[int]:
        """In halves if there are more marks than an answer may have: in ten seconds there is one for each queue."""
        try:
            return {row[0] for row in await self._tables.rows("queue_marks", day=day, since=since, until=until)}
        except TooLarge:
            if until - since <= timedelta(seconds=WINDOW_S):
                raise
            middle = since + (until - since) / 2
            earlier = await self._marked_on(day, since, middle)
            return earlier | await self._marked_on(day, middle, until)

    async def _make(self, name: QueueName) -> None:
        number = name.number_first()
        while True:
            values = {"tenant": name.tenant, "priority": str(name.priority)}
            await self._tables.rows("queue_add", number=number, **values)
            ((tenant, priority),) = await self._tables.rows("queue_row", number=number)
            self._unread.readable(TABLE, [(number, tenant, priority)], self._know)
            if name in self._by_name:
                return
            number = (number + 1) % NUMBERS

    async def _read(self) -> None:
        rows = await self._tables.rows("queues")
        self._unread.readable(TABLE, rows, self._know)
        self._foreign = {row[0] for row in rows} - self._by_number.keys()
        self._read_until = self._now() + KNOWN_FOR

    def _know(self, row: Row) -> None:
        number, tenant, priority = row
        queue = TenantQueue(QueueName(tenant, JobPriority(priority)), number)
        self._by_number[number], self._by_name[queue.name] = queue, queue

    async def _forget(self, day: str) -> None:
        if day != self._forgotten_day:
            self._forgotten_day = day
            await self._tables.rows("queue_marks_delete", day=day)


def _window(moment: datetime) -> datetime:
    seconds = moment.second // WINDOW_S * WINDOW_S
    return moment.replace(second=seconds, microsecond=0)


def _day(moment: datetime) -> str:
    return moment.astimezone(UTC).date().isoformat()
