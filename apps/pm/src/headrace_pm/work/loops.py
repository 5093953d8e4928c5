"""Loops that must not end while their process lives: what fails in a round is told, and the round is made again.

A loop that died while everything else goes on would be seen by nobody. So a round may raise anything: it is logged with
its traceback, counted, tried again after a pause that grows, and `/readyz` names the loop until a round has passed. A
round that takes for ever is ended, and counts as failed; so one that has much to do does a part of it and answers True,
and the next one comes at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

import structlog

from headrace.errors import HeadraceError, TryAgain
from headrace.services import Backoff, Pauses, rest

# A table or server that restarts is back in seconds; one that is away for long is asked twice a minute.
AGAIN = Backoff(0.5, 30.0)
ROUND_S_MIN, ROUND_TIMES = 600.0, 10.0
END_S = 5.0
log = structlog.get_logger("headrace_pm.work")


@dataclass
class LoopState:
    """How a loop gets on. `last_ok_at` is when a round last passed, by the wall clock; `failures` came since."""

    name: str
    last_ok_at: float = 0.0
    failures: int = 0
    error: str = ""

    async def answers(self) -> object:
        """For `/readyz`: `TryAgain` while its rounds fail."""
        if self.failures:
            raise TryAgain(f"{self.name} has failed {self.failures} times in a row: {self.error}")
        return self.last_ok_at


async def ended(tasks: Collection[asyncio.Task[None]]) -> None:
    """After a stop: who still waits for a server that does not answer waits in vain, and is cut off. Nothing counts
    before it is written."""
    if tasks:
        await asyncio.wait(tasks, timeout=END_S)
    for task in tasks:
        task.cancel()


class KeptLoop:
    """Makes a round every so many seconds, until it is stopped. `failed` is called for each that failed."""

    def __init__(
        self, name: str, every_s: float, one_round: Callable[[], Awaitable[object]], failed: Callable[[str], None]
    ) -> None:
        self.state, self.every_s, self._round, self._failed = LoopState(name), every_s, one_round, failed
        self._is_more = False
        self._round_s_max = max(ROUND_S_MIN, ROUND_TIMES * every_s)

    async def run(self, stop: asyncio.Event) -> None:
        pauses = Pauses(backoff=AGAIN)
        while not stop.is_set():
            if await self._made(stop):
                pauses.reset()
                # Others on the event loop have their turn, also if a round never waits.
                await rest(stop, 0.0 if self._is_more else self.every_s)
            elif not stop.is_set():
                await rest(stop, pauses.next_s())

    async def _made(self, stop: asyncio.Event) -> bool:
        """Whether a round passed; the stop cuts one off."""
        is_cut = False
        making = asyncio.ensure_future(self._bounded())
        stopped = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait((making, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            if not making.done():
                is_cut = True
                making.cancel()
            [ended] = await asyncio.gather(making, return_exceptions=True)
        if isinstance(ended, asyncio.CancelledError) and (is_cut or stop.is_set()):
            return False
        if isinstance(ended, BaseException):
            self._note(ended)
            return False
        self.state.last_ok_at, self.state.failures, self.state.error = time.time(), 0, ""
        return True

    async def _bounded(self) -> None:
        async with asyncio.timeout(self._round_s_max):
            self._is_more = await self._round() is True

    def _note(self, error: BaseException) -> None:
        state = self.state
        words = str(error) or ("it took too long" if isinstance(error, TimeoutError) else "")
        state.failures, state.error = state.failures + 1, f"{type(error).__name__}: {words}"
        # What an outage looks like is known; anything else is a fault of ours, and its traceback says where.
        trace = None if isinstance(error, HeadraceError) and error.heals else error
        log.error("loop.failed", loop=state.name, failures=state.failures, error=state.error, exc_info=trace)
        self._failed(state.name)
