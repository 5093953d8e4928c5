"""Leases of the embedded store, counted as those of Cassandra are by their adapter."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from headrace.ports import Lease, Leased, LeaseOperation, LeaseOutcome, Leases, LeaseVerb

Answer = TypeVar("Answer", Leased, bool)


class ObservedLeases:
    """`Leases` on others; `observe` is called after every operation."""

    def __init__(self, leases: Leases, observe: Callable[[LeaseOperation], None]) -> None:
        self._leases, self._observe = leases, observe

    async def acquire(self, name: str, holder: str, hold_s: float) -> Leased:
        return await self._timed(LeaseVerb.ACQUIRE, self._leases.acquire(name, holder, hold_s))

    async def renew(self, name: str, fence: int, hold_s: float) -> bool:
        return await self._timed(LeaseVerb.RENEW, self._leases.renew(name, fence, hold_s))

    async def release(self, name: str, fence: int) -> bool:
        return await self._timed(LeaseVerb.RELEASE, self._leases.release(name, fence))

    async def takeover(self, name: str, holder: str, epoch: int, hold_s: float) -> Leased:
        return await self._timed(LeaseVerb.TAKEOVER, self._leases.takeover(name, holder, epoch, hold_s))

    async def look(self, name: str) -> Lease | None:
        return await self._leases.look(name)

    def leases(self) -> AsyncIterator[Lease]:
        return self._leases.leases()

    async def _timed(self, op: LeaseVerb, work: Awaitable[Answer]) -> Answer:
        began, outcome = time.perf_counter(), LeaseOutcome.FAILED
        try:
            answer = await work
            granted = answer.granted if isinstance(answer, Leased) else bool(answer)
            outcome = LeaseOutcome.GRANTED if granted else LeaseOutcome.REFUSED
            return answer
        finally:
            self._observe(LeaseOperation(op, time.perf_counter() - began, outcome))
