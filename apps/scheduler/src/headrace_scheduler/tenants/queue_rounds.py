"""Which buckets the reconciler looks over: the default queue's every time, others while there may be something.

A queue that had a job due in the last ten minutes, or in which the last look found a job that had not ended, is looked
over every time. Any other every five minutes: what can lie there is a job whose creation broke off before its first
pending row, which nobody was told of.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tenants.tenant_queue import number_of

MARKS_BACK = timedelta(minutes=10)
LOOK_EVERY = timedelta(minutes=5)
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class QueueRounds:
    """The passes of one reconciler."""

    def __init__(self, tables: AllTables, polled: int) -> None:
        self._tables, self._polled = tables, polled
        self._open: set[int] = set()
        self._look_at: dict[int, datetime] = {}

    def begin_anew(self) -> None:
        """Look over everything in the next pass."""
        self._look_at.clear()

    async def buckets(self) -> list[int]:
        """The buckets of the next pass."""
        now, queues = self._tables.now(), self._tables.queues
        marked = await queues.marked(now - MARKS_BACK, now)
        found = list(range(self._polled))
        for queue in await queues.others(marked):
            assert queue.number is not None
            busy = queue.number in marked or not self._open.isdisjoint(queue.own_buckets)
            if busy or not now < self._look_at.get(queue.number, _LONG_AGO) <= now + LOOK_EVERY:
                found += queue.own_buckets
        return found

    def saw(self, bucket_id: int, is_open: bool) -> None:
        """A bucket was looked over: whether it holds jobs that have not ended."""
        number = number_of(bucket_id)
        if number is not None:
            self._look_at[number] = self._tables.now() + LOOK_EVERY
            (self._open.add if is_open else self._open.discard)(bucket_id)
