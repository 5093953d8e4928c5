"""Whose turn it is to reconcile: one process of all, for as long as it says that it lives."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress

import headrace
from headrace.errors import NotFound, suppress_healing

LEASE = "smap/reconciler"
HOLD_S = 3.0
RENEW_S = 1.0


class Turn:
    """A lease that is taken when it is free and renewed as long as it is asked for."""

    def __init__(self, engine: headrace.Engine) -> None:
        self._leases = engine.leases
        self._holder = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._fence: int | None = None
        self._renewed_at = 0.0

    async def is_ours(self) -> bool:
        """Take it or keep it, if that can be."""
        if self._fence is not None and time.monotonic() - self._renewed_at < RENEW_S:
            return True
        asked_at = time.monotonic()
        if self._fence is None or not await self._leases.renew(LEASE, self._fence, HOLD_S):
            self._fence = await self._taken()
        self._renewed_at = asked_at
        return self._fence is not None

    async def give_up(self) -> None:
        """Let another process go on at once."""
        if self._fence is not None:
            fence, self._fence = self._fence, None
            with suppress_healing():
                await self._leases.release(LEASE, fence)

    async def _taken(self) -> int | None:
        asked = await self._leases.acquire(LEASE, self._holder, HOLD_S)
        if not asked.granted and asked.lease.free:
            with suppress(NotFound):
                asked = await self._leases.takeover(LEASE, self._holder, asked.lease.epoch, HOLD_S)
        return asked.lease.fence if asked.granted else None
