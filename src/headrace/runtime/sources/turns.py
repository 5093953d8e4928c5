"""Which held items may be started: ordinary ones beside each other, a suspect only when nothing else is.

A hold that was lost says that a worker was lost, and not by whose fault. So a suspect is the only started item of its
process: if it is lost again, it is certain who caused it, and nobody else pays for it. The first suspect in hand waits
until everything that was started has ended, and nothing is taken from the source meanwhile. What is held behind it
waits for a while and is given back then: other workers may have their hands free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.runtime.sources.holds import Hold


class Turns:
    """The turns of one worker. `closed` says that nothing more is to be started."""

    def __init__(self, now: Callable[[], float], closed: Callable[[], bool]) -> None:
        self._now, self._closed = now, closed
        self._started: set[int] = set()
        # The suspect whose turn is next, or has come, by the number of its hold.
        self._alone: int | None = None
        self._changed = asyncio.Event()

    @property
    def taken(self) -> bool:
        """Whether a suspect waits for the others, or runs."""
        return self._alone is not None

    async def begin(self, hold: Hold, patience_s: float) -> bool:
        """Wait until it may be started. False: it may not, because it waited too long, has to stop or was lost."""
        gives_up_at = self._now() + patience_s
        while not self.may_start(hold):
            if self._closed() or hold.interrupted.done():
                break
            ends_at = hold.drop_at if self._alone == hold.number else min(hold.drop_at, gives_up_at)
            if self._now() >= hold.drop_at:
                hold.lose("not_renewed")
            if self._now() >= ends_at:
                break
            await self._change(hold, ends_at - self._now())
        else:
            self._started.add(hold.number)
            return True
        self.end(hold)
        return False

    def may_start(self, hold: Hold) -> bool:
        """Whether its turn has come. Asking is what reserves the next turn for a suspect."""
        if not hold.held.suspect:
            return self._alone is None or self._alone not in self._started
        if self._alone is None:
            self._alone = hold.number
        return self._alone == hold.number and not self._started

    def end(self, hold: Hold) -> None:
        self._started.discard(hold.number)
        if self._alone == hold.number:
            self._alone = None
        self.tell()

    def tell(self) -> None:
        """Something has changed that somebody may wait for."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _change(self, hold: Hold, within_s: float) -> None:
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((changed, hold.interrupted), timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
