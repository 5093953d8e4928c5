"""Connections to one server: kept, lent, checked, and never more than the server bears.

There are three lanes. Transfers share a number of connections; listing and moving have one each, so that transfers that
hang cannot keep them waiting. A connection that was not used for a moment is asked (NOOP) before it is lent. One that
was lent to a block that ended with an error is dropped, whatever the error was.

421 says that the server bears fewer: the number of transfers is lowered to what it bore, and raised again one at a
time. A server that does not answer, or does not let us in, has a circuit breaker: it is asked once per pause.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.errors import HeadraceError
from headrace.services import Backoff, CircuitBreaker
from headrace_pm.ftp.errors import ServerAway, ServerBusy
from headrace_pm.ftp.sessions.file_session import FileSession

# A wrong password locks an account on some servers after a few tries, and a server that restarts takes seconds.
TRIES = Backoff(1.0, 60.0)
# The server of the text gives ten connections; a moment is shorter than any idle limit of a server or firewall.
CHECK_AFTER_S = 2.0
RAISE_AFTER_S = 60.0
Opener = Callable[[], Awaitable[FileSession]]


class ServerLane(StrEnum):
    """What a connection is for."""

    TRANSFER = "transfer"
    SCAN = "scan"
    MOVE = "move"


@dataclass(slots=True)
class PoolCounts:
    """What a pool did so far."""

    opened: int = 0
    failed: int = 0
    dropped: int = 0
    refused_busy: int = 0


@dataclass(slots=True)
class _LaneState:
    cap: int
    lent: int = 0
    idle: list[tuple[FileSession, float]] = field(default_factory=list)
    freed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def open(self) -> int:
        return self.lent + len(self.idle)


class ServerPool:
    """The connections to one server; `name` is its key."""

    def __init__(
        self,
        name: str,
        opener: Opener,
        transfers_max: int = 10,
        now: Callable[[], float] = time.monotonic,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        self.name, self._open_session, self._now = name, opener, now
        self._transfers_max = transfers_max
        self._lanes = {
            ServerLane.TRANSFER: _LaneState(transfers_max),
            ServerLane.SCAN: _LaneState(1),
            ServerLane.MOVE: _LaneState(1),
        }
        self._breaker = breaker or CircuitBreaker(backoff=TRIES)
        self._tries = 0
        self._is_trying = self._closed = False
        self._lowered_at = 0.0
        self._failed_by = ""
        self.counts = PoolCounts()

    @property
    def transfers_now(self) -> int:
        """How many transfers the server bears, as far as is known."""
        return self._lanes[ServerLane.TRANSFER].cap

    @property
    def open_count(self) -> int:
        return sum(state.open for state in self._lanes.values())

    @property
    def is_away(self) -> bool:
        """Whether the circuit breaker is open."""
        return self._breaker.open_at(self._now())

    @asynccontextmanager
    async def session(self, lane: ServerLane) -> AsyncIterator[FileSession]:
        """A connection of a lane for the block. It goes back after a block without errors, else it is dropped."""
        state = self._lanes[lane]
        lent = await self._take(lane, state)
        is_sound = False
        try:
            yield lent
            is_sound = True
        finally:
            await self._give_back(state, lent, is_sound)

    async def close(self) -> None:
        """End all connections that are not lent; those that are end as they come back."""
        self._closed = True
        for state in self._lanes.values():
            while state.idle:
                await state.idle.pop()[0].close()

    async def _take(self, lane: ServerLane, state: _LaneState) -> FileSession:
        while True:
            await self._take_place(state)
            try:
                return await self._checked(state) or await self._opened()
            except ServerBusy:
                await self._return_place(state)
                if not await self._make_do_with_less(lane):
                    raise
            except BaseException:
                await self._return_place(state)
                raise

    async def _take_place(self, state: _LaneState) -> None:
        async with state.freed:
            self._raise_cap()
            try:
                await state.freed.wait_for(lambda: state.lent < state.cap)
            except asyncio.CancelledError:
                # The word that a place is free may have been for us.
                state.freed.notify()
                raise
            state.lent += 1

    async def _checked(self, state: _LaneState) -> FileSession | None:
        """The connection that was used last, if it still answers."""
        while state.idle:
            found, since = state.idle.pop()
            if self._now() - since < CHECK_AFTER_S:
                return found
            try:
                await found.noop()
                return found
            except HeadraceError:
                self.counts.dropped += 1
                await found.close()
            except BaseException:
                await found.close()
                raise
        return None

    async def _opened(self) -> FileSession:
        waits_until = self._breaker.opens_until(self._now())
        if waits_until is not None:
            raise ServerAway(f"{self._failed_by} (asked again in {waits_until - self._now():.1f} s)")
        if self._is_trying and not self._breaker.closed:
            raise ServerAway(f"{self._failed_by} (being asked again)")
        self._tries, self._is_trying = self._tries + 1, True
        number = self._tries
        self._breaker.begin(number)
        try:
            made = await self._open_session()
        except ServerBusy as error:
            self.counts.refused_busy += 1
            if self.open_count <= 1:
                # Nobody of ours is in the way: the server is full of others, or ill.
                self._fail(error)
            raise
        except HeadraceError as error:
            self.counts.failed += 1
            self._fail(error)
            raise
        finally:
            self._is_trying = False
        self.counts.opened += 1
        self._breaker.passed(number)
        return made

    def _fail(self, error: HeadraceError) -> None:
        self._failed_by = str(error)
        self._breaker.fail(self._now())

    async def _make_do_with_less(self, lane: ServerLane) -> bool:
        """After 421: fewer transfers from now on. Whether it makes sense to wait for a connection of our own."""
        state = self._lanes[ServerLane.TRANSFER]
        # Listing and moving need a place that a transfer gives up.
        wanted = state.open if lane is ServerLane.TRANSFER else state.open - 1
        state.cap, self._lowered_at = max(1, min(state.cap, wanted)), self._now()
        while state.idle and (lane is not ServerLane.TRANSFER or state.open > state.cap):
            await state.idle.pop()[0].close()
        return lane is ServerLane.TRANSFER and state.open > 0

    def _raise_cap(self) -> None:
        state = self._lanes[ServerLane.TRANSFER]
        if state.cap < self._transfers_max and self._now() - self._lowered_at >= RAISE_AFTER_S:
            state.cap, self._lowered_at = state.cap + 1, self._now()

    async def _return_place(self, state: _LaneState) -> None:
        async with state.freed:
            state.lent -= 1
            # As many as there are places: the number may have been raised since.
            state.freed.notify(max(1, state.cap - state.lent))

    async def _give_back(self, state: _LaneState, lent: FileSession, is_sound: bool) -> None:
        if is_sound and not self._closed and state.open <= state.cap:
            state.idle.append((lent, self._now()))
        else:
            self.counts.dropped += not is_sound
            await lent.close()
        await self._return_place(state)
