"""A hold in the worker's hands: until when it is good by our own clock, and its renewal.

The worker of a store renews from a thread, because its handlers may block the event loop and one call renews all it
holds. A source answers on the event loop alone, as its driver does, so renewals run there too. A loop that is blocked
renews nothing; but its handlers take no step either, and the first thing that any of them meets afterwards is the clock
(`runtime/fenced`). So a blocked loop costs its holds, and never lets two workers be at one item.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.core.backoff import Backoff
from headrace.core.sources import HeldItem
from headrace.ports.seams import Clock
from headrace.runtime.pacing import Pauses
from headrace.runtime.sources.options import SourceOptions
from headrace.runtime.yard import Why

if TYPE_CHECKING:
    from headrace.runtime.sources.calls import SourceCalls


class Hold:
    """One held item. `number` counts the holds of a worker: fences of different items may be equal."""

    __slots__ = (
        "_clock",
        "_options",
        "_renewal",
        "asked_at",
        "good_until",
        "held",
        "interrupted",
        "lost",
        "number",
        "settling",
    )

    def __init__(self, held: HeldItem, number: int, asked_at: float, clock: Clock, options: SourceOptions) -> None:
        self.held, self.number, self.asked_at = held, number, asked_at
        self._clock, self._options = clock, options
        self.good_until = asked_at + options.hold_s
        # The handler is over and its outcome is on the way: a renewal may be refused because that has arrived.
        self.settling = False
        # Why it is not ours any more; "" while it is.
        self.lost = ""
        self.interrupted: asyncio.Future[Why] = asyncio.get_running_loop().create_future()
        # What the next renewal waits for, while it does.
        self._renewal: asyncio.Future[None] | None = None

    @property
    def left_s(self) -> float:
        return max(0.0, self.good_until - self._clock.monotonic())

    @property
    def drop_at(self) -> float:
        """When the handler is cancelled, unless a renewal is confirmed before."""
        return self.good_until - self._options.margin_s

    def over(self) -> bool:
        return bool(self.lost) or self._clock.monotonic() >= self.good_until

    def lose(self, reason: str) -> None:
        """It is not ours any more, whatever the clock says."""
        self.lost = self.lost or reason
        self.interrupt(Why.LOST)

    def interrupt(self, why: Why) -> None:
        """The handler has to stop; the first reason counts."""
        if not self.interrupted.done():
            self.interrupted.set_result(why)

    async def keep(self, calls: SourceCalls) -> None:
        """Renew at a third of the hold. It counts from before the request: a renewal whose answer was long on its way
        is good for what is left of it. One that gave no answer has not happened."""
        hold_s, now = self._options.hold_s, calls.now
        pauses = Pauses(calls.seams.chance, Backoff(hold_s / 30, hold_s / 10))
        due_at = self.asked_at + hold_s / 3
        while not self.over():
            await self._until(due_at - now())
            asked_at = now()
            if self.over():
                return
            try:
                call = calls.source.renew(self.held, hold_s)
                kept = await calls.ask("renew", call, self._options.answer_s_max, self.over)
            except Exception as error:  # whatever a source raises, the hold's own end decides
                calls.observer.event("renew.failed", key=self.held.key, error=type(error).__name__, detail=str(error))
                due_at = now() + pauses.next_s()
                continue
            if not kept:
                if not self.settling:
                    self.lose("refused")
                return
            pauses.reset()
            self.good_until = self.granted_until(asked_at)
            due_at = asked_at + hold_s / 3

    def renew_now(self) -> None:
        """Do not wait for the next renewal's time."""
        _end(self._renewal)

    async def _until(self, seconds: float) -> None:
        """Sleep, unless somebody asks for a renewal before."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        self._renewal = loop.create_future()
        timer = loop.call_later(seconds, _end, self._renewal)
        try:
            await self._renewal
        finally:
            timer.cancel()
            self._renewal = None

    def granted_until(self, asked_at: float) -> float:
        """Until when a renewal that was asked for at this moment is good."""
        return asked_at + self._options.hold_s


def _end(waited: asyncio.Future[None] | None) -> None:
    if waited is not None and not waited.done():
        waited.set_result(None)
