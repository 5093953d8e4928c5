"""How many jobs of a tenant wait, and the refusal of one too many.

They are counted in the pending rows, at most once in five seconds while there is room and twice a second at the limit,
and what this process accepts in between is added. So several processes together may accept more than the limit: what
each of them accepts within five seconds.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from headrace.http import Problem
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tenants.tenant_limits import TenantRules
from headrace_scheduler.tenants.tenant_queue import TenantQueue

COUNT_EVERY = timedelta(seconds=5)
COUNT_AGAIN = timedelta(seconds=0.5)
TENANTS_MAX = 1_000
_END_OF_TIME = datetime(9999, 1, 1, tzinfo=UTC)
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class CountedJobs:
    """What was counted last, and what was accepted since."""

    count: int = 0
    counted_at: datetime = _LONG_AGO
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class OpenJobs:
    """The limit `open` of tenants, in one process. `polled` is how many buckets the default queue has."""

    def __init__(self, tables: AllTables, polled: int, rules: TenantRules) -> None:
        self._tables, self._polled, self._rules = tables, polled, rules
        self._counted: dict[str, CountedJobs] = {}

    async def admit(self, tenant: str, job_id: UUID | None = None) -> None:
        """Room for one more job, or `Problem` 429. A job of this id, if there is one already, is no further one."""
        most = self._rules.limits(tenant).open
        if most is None or (job_id is not None and await self._tables.jobs.bucket(job_id) is not None):
            return
        counted = self._counted.setdefault(tenant, CountedJobs())
        if len(self._counted) > TENANTS_MAX:
            del self._counted[next(iter(self._counted))]
        async with counted.lock:
            now = self._tables.now()
            every = COUNT_AGAIN if counted.count >= most else COUNT_EVERY
            if not counted.counted_at <= now < counted.counted_at + every:
                counted.count, counted.counted_at = await self.count(tenant, most), now
            if counted.count >= most:
                detail = f"{most:,} jobs of the tenant {tenant} wait, which is the limit `open`"
                headers = {"Retry-After": str(math.ceil(COUNT_AGAIN.total_seconds()))}
                raise Problem(429, "quota", detail, hint="try again when some of them have run", headers=headers)
            counted.count += 1

    async def count(self, tenant: str, most: int) -> int:
        """How many wait; counting ends at `most`."""
        total = 0
        for queue in await self._tables.queues.of_tenant(tenant):
            for bucket in self._buckets(queue):
                async for page in self._tables.pending.pages(bucket, _END_OF_TIME):
                    total += len(page)
                    if total >= most:
                        return most
        return total

    def _buckets(self, queue: TenantQueue) -> range:
        return range(self._polled) if queue.number is None else queue.own_buckets
