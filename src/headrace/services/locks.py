"""A lock client: leases by the words of a distributed lock (resource, holder, token), blocking with a timeout.

A thin facade over the port `Leases`, on whatever store. It differs from the port in one point: a holder that asks again
for what it holds is refused, because two threads of one worker may go by the same name. The port recognises a holder,
so that an answer that was lost can be asked for again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.core.errors import CallerError, NotFound
from headrace.core.leases import Lease, Leased
from headrace.ports.leases import Leases
from headrace.runtime.pacing import Pauses
from headrace.runtime.seams import Seams

HOLDERS_MAX = 10_000
"""Grants that a client remembers; whose an older one is, the store is asked."""


@dataclass(frozen=True, slots=True)
class LockResult:
    """`acquired` with its token and its end; or not, and token, end and `holder` are those of whoever has it."""

    acquired: bool
    token: int
    expire_at: datetime
    epoch: int
    holder: str = ""

    def document(self) -> Mapping[str, Any]:
        """As JSON has it, with the moment by RFC 3339. A token is a right, and of another holder's there is none."""
        moment = self.expire_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        token = self.token if self.acquired else None
        return {"acquired": self.acquired, "token": token, "expire_at": moment, "epoch": self.epoch}


class LockClient:
    """Acquire, renew and release locks. The token goes along with every write, and whoever receives it refuses a lower
    one."""

    def __init__(self, leases: Leases, seams: Seams | None = None) -> None:
        self._leases, self._seams = leases, seams or Seams()
        # A token is granted to one holder, ever: for those granted here nobody needs to be asked whose they are.
        self._holders: dict[tuple[str, int], str] = {}

    async def next_seq(self, resource: str) -> int:
        """The next fencing token of a resource, where tokens are drawn apart from locks."""
        draw = getattr(self._leases, "next_seq", None)
        if draw is None:
            raise CallerError("the fences of this store come with its grants", "acquire the lock")
        return int(await draw(resource))

    async def acquire(self, resource: str, holder: str, ttl_s: float, timeout_s: float) -> LockResult:
        """Try until it is granted or the time is over, after pauses of 50 ms doubling to 2 s."""
        clock, pauses = self._seams.clock, Pauses(self._seams.chance)
        deadline = clock.monotonic() + timeout_s
        while True:
            result = await self.try_acquire(resource, holder, ttl_s)
            left_s = deadline - clock.monotonic()
            if result.acquired or left_s <= 0:
                return result
            await asyncio.sleep(min(left_s, pauses.next_s()))

    async def try_acquire(self, resource: str, holder: str, ttl_s: float) -> LockResult:
        """One attempt; what has expired is taken over."""
        answer = await self._leases.acquire(resource, holder, ttl_s)
        if answer.lease.holder and answer.lease.free:
            with contextlib.suppress(NotFound):
                answer = await self._leases.takeover(resource, holder, answer.lease.epoch, ttl_s)
        return self._reported(holder, answer)

    async def takeover(self, resource: str, holder: str, epoch: int, ttl_s: float) -> LockResult:
        """Take what has expired, if its epoch is still this one. `NotFound`: there is no such lock."""
        return self._reported(holder, await self._leases.takeover(resource, holder, epoch, ttl_s))

    async def renew(self, resource: str, holder: str, token: int, ttl_s: float) -> bool:
        """False: it is lost, or was never this holder's."""
        return await self._belongs(resource, holder, token) and await self._leases.renew(resource, token, ttl_s)

    async def release(self, resource: str, holder: str, token: int) -> bool:
        """False as in `renew`."""
        if not await self._belongs(resource, holder, token):
            return False
        self._holders.pop((resource, token), None)
        return await self._leases.release(resource, token)

    async def _belongs(self, resource: str, holder: str, token: int) -> bool:
        known = self._holders.get((resource, token))
        if known is not None:
            return known == holder
        lease = await self._leases.look(resource)
        return lease is not None and (lease.holder, lease.fence) == (holder, token)

    def _reported(self, holder: str, answer: Leased) -> LockResult:
        """A grant that repeats another is none: whoever got the first one has it."""
        acquired, lease = answer.granted and not answer.repeated, answer.lease
        if acquired:
            self._holders[lease.name, lease.fence] = holder
            if len(self._holders) > HOLDERS_MAX:
                del self._holders[next(iter(self._holders))]
        return LockResult(acquired, lease.fence, self._end(lease), lease.epoch, lease.holder)

    def _end(self, lease: Lease) -> datetime:
        now = datetime.fromtimestamp(self._seams.clock.wall(), UTC)
        return lease.expire_at or now + timedelta(seconds=lease.left_s)
