"""Leases that the scheduler takes for itself: the series of locks tell of jobs, and begin at 0."""

from __future__ import annotations

from collections.abc import AsyncIterator

from headrace.ports import Lease, Leased, Leases
from headrace_scheduler.metrics import SchedulerMetrics


class UncountedLeases:
    """`Leases` on others, whose operations are not counted."""

    def __init__(self, leases: Leases, metrics: SchedulerMetrics) -> None:
        self._leases, self._metrics = leases, metrics

    async def acquire(self, name: str, holder: str, hold_s: float) -> Leased:
        with self._metrics.uncounted():
            return await self._leases.acquire(name, holder, hold_s)

    async def renew(self, name: str, fence: int, hold_s: float) -> bool:
        with self._metrics.uncounted():
            return await self._leases.renew(name, fence, hold_s)

    async def release(self, name: str, fence: int) -> bool:
        with self._metrics.uncounted():
            return await self._leases.release(name, fence)

    async def takeover(self, name: str, holder: str, epoch: int, hold_s: float) -> Leased:
        with self._metrics.uncounted():
            return await self._leases.takeover(name, holder, epoch, hold_s)

    async def look(self, name: str) -> Lease | None:
        return await self._leases.look(name)

    def leases(self) -> AsyncIterator[Lease]:
        return self._leases.leases()
