"""Dead jobs for people: all of them, or those of one tenant."""

from __future__ import annotations

import asyncio
from uuid import UUID

from headrace_scheduler.jobs.values import DeadJob
from headrace_scheduler.tables.all_tables import AllTables

SCANNED_MAX = 2_000
"""How many rows one page may look at. The table has no tenants, so each row's job is looked up."""


class DeadList:
    """Pages of dead jobs."""

    def __init__(self, tables: AllTables) -> None:
        self._tables = tables

    async def page(self, tenant: str, after: UUID | None, limit: int) -> tuple[list[DeadJob], UUID | None]:
        """Up to `limit`, and after which the next page begins; None: there are no more. Without a tenant: of all."""
        found: list[DeadJob] = []
        looked_at = 0
        while True:
            rows = await self._tables.dead.page(after, limit + 1)
            mine = rows[:limit] if not tenant else await self._of(tenant, rows[:limit])
            for dead in mine:
                found.append(dead)
                if len(found) == limit:
                    last = dead is rows[-1]
                    return found, None if last else dead.job_id
            if len(rows) <= limit:
                return found, None
            after, looked_at = rows[limit - 1].job_id, looked_at + limit
            if looked_at >= SCANNED_MAX:
                return found, after

    async def _of(self, tenant: str, rows: list[DeadJob]) -> list[DeadJob]:
        tenants = await asyncio.gather(*(self.tenant(dead.job_id) for dead in rows))
        return [dead for dead, whose in zip(rows, tenants, strict=True) if whose == tenant]

    async def tenant(self, job_id: UUID) -> str:
        """Whose a dead job is; one that only another program knows is the default tenant's."""
        bucket_id = await self._tables.jobs.bucket(job_id)
        return (await self._tables.queues.of_bucket(bucket_id or 0)).name.tenant
