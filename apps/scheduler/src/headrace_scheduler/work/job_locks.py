"""The lock of a job, `job:<id>`: taken when it is free or has expired, whoever held it."""

from __future__ import annotations

import copy
from uuid import UUID

import structlog

from headrace.errors import HeadraceError, NotFound
from headrace.ports import Lease, Leased, Leases
from headrace_scheduler.jobs.values import job_of, resource_of
from headrace_scheduler.tables.refused_jobs import JOBS_MAX, RefusedJobs

log = structlog.get_logger("scheduler")


class JobLocks:
    """Leases by the ids of jobs. `refused` is what the polls of this process leave out: see `noting`."""

    def __init__(self, leases: Leases, refused: RefusedJobs | None = None) -> None:
        self._leases, self._refused = leases, refused

    def noting(self, refused: RefusedJobs) -> JobLocks:
        """The same locks for those who run what a poll has found. Others are refused by a worker that is at the job, or
        by somebody who lets go of it at once: that is no reason to leave its row out."""
        noting = copy.copy(self)
        noting._refused = refused
        return noting

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
        if self._refused is not None:
            if leased.granted:
                self._refused.forget(job_id)
            else:
                self._refused.note(job_id, leased.lease.left_s)
        return leased if leased.granted else None

    async def learn(self) -> None:
        """Know of all locks that are held, if so many were refused that asking for each would take long. A list that
        cannot be read keeps nobody from asking."""
        if self._refused is None or not self._refused.should_learn():
            return
        held = list[tuple[UUID, float]]()
        try:
            async for lease in self._leases.leases():
                if not lease.free and (job_id := job_of(lease.name)) is not None:
                    held.append((job_id, lease.left_s))
                if len(held) == JOBS_MAX:
                    break
        except HeadraceError as error:
            if not error.heals:
                raise
            log.warning("poll.locks_unread", error=str(error))
        else:
            self._refused.learn(held)

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
