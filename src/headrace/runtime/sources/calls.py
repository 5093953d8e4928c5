"""Calls of a source: each within a time, and repeated as it is while its answer is unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace.core.errors import HeadraceError, Unknown
from headrace.ports.source import Source
from headrace.runtime.observe import Observer
from headrace.runtime.pacing import Pauses
from headrace.runtime.seams import Seams
from headrace.runtime.sources.holds import Hold

T = TypeVar("T")
FAILING = "source.failing"


class SourceCalls:
    """Asks the source on behalf of one worker. `moved_at` is when it last answered, or failed to: a worker that gets on
    hears of it all the time."""

    def __init__(self, source: Source, seams: Seams, observer: Observer) -> None:
        self.source, self.seams, self.observer = source, seams, observer
        self.moved_at = self.now()

    def now(self) -> float:
        return self.seams.clock.monotonic()

    async def ask(self, name: str, call: Awaitable[T], within_s: float) -> T:
        """The answer. One that does not come in time is unknown: the call may have been carried out."""
        try:
            async with asyncio.timeout(within_s):
                return await call
        except TimeoutError:
            raise Unknown(f"{name}: no answer within {within_s:g} s") from None
        finally:
            self.moved_at = self.now()

    def failing(self, name: str, error: BaseException) -> None:
        self.observer.event(FAILING, call=name, error=type(error).__name__, detail=str(error))

    async def repeat(self, name: str, hold: Hold, call: Callable[[], Awaitable[bool]], within_s: float) -> bool | None:
        """Send the same write until it is answered. None: the hold ended before, and what became of it is unknown."""
        pauses = Pauses(self.seams.chance)
        while not hold.over():
            try:
                return await self.ask(name, call(), min(within_s, hold.left_s))
            except HeadraceError as error:
                if not error.heals:
                    raise
                self.failing(name, error)
            await asyncio.sleep(min(pauses.next_s(), hold.left_s))
        return None
