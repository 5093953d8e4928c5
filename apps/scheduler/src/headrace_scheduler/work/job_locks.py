"""The lock of a job, `job:<id>`: taken when it is free or has expired, whoever held it."""

from __future__ import annotations

from uuid import UUID

from headrace.errors import NotFound
from headrace.ports import Lease, Leased, Leases
from headrace_scheduler.jobs.values import resource_of


class JobLocks:
    """Leases by the ids of jobs."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases

    async def take(self, job_id: UUID, holder: str, hold_s: float) -> Leased | None:
        """None: another holder has it. A repeat of its live holder gets the same lease."""
        name = resource_of(job_id)
        leased = await self._leases.acquire(name, holder, hold_s)
        if not leased.granted and leased.lease.free:
            try:
                leased = await self._leases.takeover(name, holder, leased.lease.epoch, hold_s)
            except NotFound:
                # It was released meanwhile, and some store has no row for that: the next poll finds it free.
                return None
        return leased if leased.granted else None

    async def renew(self, job_id: UUID, fence: int, hold_s: float) -> bool:
        return await self._leases.renew(resource_of(job_id), fence, hold_s)

    async def release(self, job_id: UUID, fence: int) -> bool:
        return await self._leases.release(resource_of(job_id), fence)

    async def look(self, job_id: UUID) -> Lease | None:
        return await self._leases.look(resource_of(job_id))

    async def held(self, job_id: UUID, fence: int) -> bool:
        """Whether this grant still holds."""
        lease = await self.look(job_id)
        return lease is not None and lease.fence == fence and not lease.free
