"""Which buckets hold jobs: the installation's, those of queues, and whichever other programs have written to."""

from __future__ import annotations

import time

from headrace_scheduler.tables.job_tables import JobTables
from headrace_scheduler.tenants.queue_registry import QueueRegistry
from headrace_scheduler.tenants.tenant_queue import number_of

LOOK_S = 10.0
# What takes long is not done again before so many times as long have passed.
REST_SHARE = 10.0
PAGE = 500
FIRST = -(2**63)


class UsedBuckets:
    """Every bucket of `jobs_sharded`. `polled` is how many the installation has."""

    def __init__(self, tables: JobTables, queues: QueueRegistry, polled: int) -> None:
        self._tables, self._queues, self._polled = tables, queues, polled
        self._strays: list[int] = []
        self._look_at = float("-inf")

    async def every(self) -> list[int]:
        """Known ones as they are now, others as they were found lately."""
        began = time.monotonic()
        if began >= self._look_at:
            self._strays = await self._look()
            ended = time.monotonic()
            self._look_at = ended + max(LOOK_S, REST_SHARE * (ended - began))
        own = [bucket for queue in await self._queues.others() for bucket in queue.own_buckets]
        return [*range(self._polled), *own, *filter(self._is_stray, self._strays)]

    async def _look(self) -> list[int]:
        """A queue is there before its first job. So queues are read behind the buckets that shall be none of theirs:
        a tenant's jobs are never taken for somebody else's."""
        found = await self.tokens()
        numbers = {number_of(bucket) for bucket in found}
        await self._queues.others(frozenset(number for number in numbers if number is not None))
        return sorted(filter(self._is_stray, found))

    def _is_stray(self, bucket: int) -> bool:
        return self._queues.is_stray(bucket, self._polled)

    async def tokens(self) -> dict[int, int]:
        """The partitions as they are now, and the tokens in whose order they are listed."""
        found: dict[int, int] = {}
        after = FIRST
        while rows := await self._tables.rows("job_buckets", after=after, room=PAGE):
            found.update(rows)
            after = rows[-1][1]
            if len(rows) < PAGE:
                break
        return found
