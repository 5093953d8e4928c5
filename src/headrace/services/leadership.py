"""One process of an installation leads: it runs a loop for as long as it holds a lease of the store.

    await leader(NamedLease(engine.leases, "shop/reconciler"), reconcile, stop)

Any number of processes call this; one of them runs the loop, and after its death another one within the hold time. The
leader fences itself: it counts the hold from before it asked, by its own monotonic clock, renews at a third, and ends
the loop while a quarter is left if nothing was confirmed. A process that was frozen meanwhile takes no further step:
the clock is asked before every resumption of the loop, not only by a timer. What no clock can stop is a write that is
on its way already; `term.fence` belongs into it where that matters.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import structlog

from headrace.core.errors import ClaimLost, HeadraceError, NotFound
from headrace.core.leases import Leased
from headrace.ports.leases import Leases
from headrace.ports.seams import Clock
from headrace.runtime.fenced import Fenced, HoldEnded
from headrace.runtime.seams import Seams

HOLD_S = 10.0
# Of the hold: enough for a loop to end after it was cancelled, and for two renewals to fail before.
MARGIN, RENEWED_AT = 0.25, 1 / 3
STOP_S_MAX = 10.0
log = structlog.get_logger("headrace.services")


@dataclass(frozen=True, slots=True)
class NamedLease:
    """What is led: a name in the store's leases, and how long a leader that says nothing keeps it."""

    leases: Leases
    name: str
    hold_s: float = HOLD_S


@dataclass(slots=True)
class Term:
    """A time as leader. `fence` is higher than that of every leader before."""

    name: str
    fence: int
    hold_s: float
    ends_at: float
    clock: Clock = field(repr=False)

    @property
    def left_s(self) -> float:
        """What is left before the loop is ended, unless a renewal is confirmed."""
        return self.ends_at - self.hold_s * MARGIN - self.clock.monotonic()

    @property
    def over(self) -> bool:
        return self.clock.monotonic() >= self.ends_at

    def check(self) -> None:
        """Raise `ClaimLost` if the lease has ended; for a loop that computes for long without awaiting."""
        if self.over:
            raise ClaimLost(f"the lease {self.name} is not held any more", self.fence)


Loop = Callable[[Term], Coroutine[Any, Any, None]]


async def leader(lease: NamedLease, loop: Loop, stop: asyncio.Event, seams: Seams | None = None) -> None:
    """Run `loop` whenever this process leads, until `stop` is set or the loop returns by itself.

    A loop that is told to stop has 10 s to return before it is cancelled; then the lease is released, so that another
    process goes on at once. What the loop raises ends this, unless it heals: then there is another election.
    """
    await Leadership(lease, loop, stop, seams or Seams()).run()


class Leadership:
    """The elections and terms of one process."""

    def __init__(self, lease: NamedLease, loop: Loop, stop: asyncio.Event, seams: Seams) -> None:
        self._lease, self._loop, self._stop, self._clock = lease, loop, stop, seams.clock
        self._holder = seams.identity.new()

    async def run(self) -> None:
        while not self._stop.is_set():
            try:
                term = await self._elected()
                if term is not None and await self._lead(term):
                    return
            except HeadraceError as error:
                if not error.heals:
                    raise
                log.warning("lease.failing", lease=self._lease.name, error=str(error))
                term = None
            if term is None:
                await self._rest(self._lease.hold_s * RENEWED_AT)

    async def _elected(self) -> Term | None:
        """A term if the lease is free, or was ours: an answer that was lost is asked for again."""
        lease, asked_at = self._lease, self._clock.monotonic()
        answer = await lease.leases.acquire(lease.name, self._holder, lease.hold_s)
        if not answer.granted and answer.lease.free:
            answer = await self._taken_over(answer)
        if not answer.granted:
            return None
        term = Term(lease.name, answer.lease.fence, lease.hold_s, asked_at + answer.lease.left_s, self._clock)
        if self.too_short(term):
            return None
        log.info("lease.taken", lease=lease.name, fence=answer.lease.fence, epoch=answer.lease.epoch)
        return term

    def too_short(self, term: Term) -> bool:
        """Whether nothing can be done in it: it was ours before, and could be neither renewed nor released.

        Whoever led it all the same would lose it at once and be given it again, without a pause, until its hold ends.
        """
        return term.left_s <= 0

    async def _taken_over(self, seen: Leased) -> Leased:
        lease = self._lease
        with contextlib.suppress(NotFound):
            return await lease.leases.takeover(lease.name, self._holder, seen.lease.epoch, lease.hold_s)
        return seen

    async def _lead(self, term: Term) -> bool:
        """Run the loop while the term lasts; whether there is nothing more to lead."""
        running = asyncio.ensure_future(self.fenced(self._loop(term), term))
        renewing = asyncio.ensure_future(self.renew(term))
        watched = [running, renewing, asyncio.ensure_future(self._stopped())]
        try:
            while term.left_s > 0 and not any(task.done() for task in watched):
                await asyncio.wait(watched, timeout=term.left_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            returned = running.done()
            for task in watched:
                task.cancel()
            await asyncio.wait(watched)
            await self._give_up(term)
        error = _error(running, term) or _error(renewing, term)
        if error is not None:
            raise error
        if (returned and not _is_lost(running, term)) or self._stop.is_set():
            return True
        log.warning("lease.lost", lease=term.name, fence=term.fence)
        return False

    def fenced(self, loop: Coroutine[Any, Any, None], term: Term) -> Coroutine[Any, Any, None]:
        """The loop, with the clock asked before each of its steps."""
        return Fenced(loop, lambda: term.over)

    async def renew(self, term: Term) -> None:
        """Hold on until the lease is lost; a store that does not answer is asked again, as long as there is time."""
        while True:
            await asyncio.sleep(term.left_s - term.hold_s * (1 - MARGIN - RENEWED_AT))
            asked_at = self._clock.monotonic()
            try:
                if not await self._lease.leases.renew(term.name, term.fence, term.hold_s):
                    return
                term.ends_at = asked_at + term.hold_s
            except HeadraceError as error:
                if not error.heals:
                    raise
                log.warning("lease.failing", lease=term.name, error=str(error))
                await asyncio.sleep(term.hold_s / 20)

    async def _stopped(self) -> None:
        """The stop, and the time that the loop has to return by itself."""
        await self._stop.wait()
        await asyncio.sleep(STOP_S_MAX)

    async def _give_up(self, term: Term) -> None:
        """Let another process go on at once; one that cannot be told finds out when the hold has passed."""
        with contextlib.suppress(HeadraceError, TimeoutError):
            async with asyncio.timeout(term.hold_s * MARGIN):
                await self._lease.leases.release(term.name, term.fence)

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()


def _is_lost(task: asyncio.Future[None], term: Term) -> bool:
    """Whether it ended because the term did."""
    error = None if task.cancelled() else task.exception()
    ended = isinstance(error, HoldEnded) or (isinstance(error, ClaimLost) and error.fence == term.fence)
    return task.cancelled() or ended


def _error(task: asyncio.Future[None], term: Term) -> BaseException | None:
    return None if task.cancelled() or _is_lost(task, term) else task.exception()
