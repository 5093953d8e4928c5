"""Calls of a source: each within a time, and repeated as it is while its answer is unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from headrace.core.errors import HeadraceError, Unknown
from headrace.ports.source import Source
from headrace.runtime.fenced import Fenced, HoldEnded
from headrace.runtime.observe import Observer
from headrace.runtime.pacing import Pauses
from headrace.runtime.seams import Seams
from headrace.runtime.sources.holds import Hold

T = TypeVar("T")
Over = Callable[[], bool]
Call = Callable[[], Coroutine[Any, Any, bool]]
FAILING = "source.failing"


def never() -> bool:
    """For calls that are made under no hold."""
    return False


class SourceCalls:
    """Asks the source on behalf of one worker. `moved_at` is when it last answered, or failed to: a worker that gets on
    hears of it all the time."""

    def __init__(self, source: Source, seams: Seams, observer: Observer) -> None:
        self.source, self.seams, self.observer = source, seams, observer
        self.moved_at = self.now()

    def now(self) -> float:
        return self.seams.clock.monotonic()

    async def ask(self, name: str, call: Coroutine[Any, Any, T], within_s: float, over: Over = never) -> T:
        """The answer. One that does not come in time is unknown: the call may have been carried out.

        A source may need several statements for a call. Once its hold is `over`, the next one is not sent, also by a
        process that was stopped between two of them.
        """
        try:
            async with asyncio.timeout(within_s):
                return await Fenced(call, over)
        except TimeoutError:
            raise Unknown(f"{name}: no answer within {within_s:g} s") from None
        except HoldEnded:
            if over is never:
                # A handler asks, and it is the handler that takes no further step.
                raise
            raise Unknown(f"{name}: the hold ended before the answer") from None
        finally:
            self.moved_at = self.now()

    def failing(self, name: str, error: BaseException) -> None:
        self.observer.event(FAILING, call=name, error=type(error).__name__, detail=str(error))

    async def repeat(self, name: str, hold: Hold, call: Call, within_s: float) -> bool | None:
        """Send the same write until it is answered. None: the hold ended before, and what became of it is unknown."""
        pauses = Pauses(self.seams.chance)
        while not hold.over():
            try:
                return await self.ask(name, call(), min(within_s, hold.left_s), hold.over)
            except HeadraceError as error:
                if not error.heals:
                    raise
                self.failing(name, error)
            await asyncio.sleep(min(pauses.next_s(), hold.left_s))
        return None
