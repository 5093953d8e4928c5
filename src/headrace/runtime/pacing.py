"""The pace of loops: pauses that grow while the other side does not answer, and rings that end a rest."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from headrace.core.backoff import Backoff
from headrace.core.errors import HeadraceError
from headrace.ports.seams import Chance
from headrace.runtime.observe import Observer
from headrace.runtime.seams import RealChance, Seams

# A server that restarts is back within seconds; at two seconds a pause costs it nothing and its users little.
SERVER = Backoff(0.05, 2.0)
RESENDS_MAX = 5
T = TypeVar("T")
P = ParamSpec("P")


class Pauses:
    """The pauses of one loop: longer with every failure in a row, short again after a success."""

    __slots__ = ("_backoff", "_chance", "_failures")

    def __init__(self, chance: Chance | None = None, backoff: Backoff = SERVER) -> None:
        self._chance, self._backoff, self._failures = chance or RealChance(), backoff, 0

    def next_s(self) -> float:
        """Something failed once more: how long to wait."""
        self._failures += 1
        # The complement, so that pinned seeds of the simulator draw the pauses that they were pinned with.
        return self._backoff.pause_s(self._failures, 1 - self._chance.random())

    def reset(self) -> None:
        """It works again."""
        self._failures = 0


class Pace:
    """When a loop goes on, and when it ends."""

    def __init__(self, seams: Seams, observer: Observer) -> None:
        self._observer, self._chance, self._pauses = observer, seams.chance, Pauses(seams.chance)
        self._bell, self._over = asyncio.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def draining(self) -> bool:
        return self._over.is_set()

    def drain(self) -> None:
        self._over.set()
        self._bell.set()

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()

    def ring(self) -> None:
        """There may be work; called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._bell.set)

    def listen(self) -> None:
        """Rings count from here on: call it before looking, so that none is missed."""
        if not self.draining:
            self._bell.clear()

    async def rest(self, seconds: float) -> None:
        """Until a ring, or for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._bell.wait()

    async def over(self) -> None:
        """Until it is drained."""
        await self._over.wait()

    def new_pauses(self) -> Pauses:
        """For one of several things that may fail beside each other."""
        return Pauses(self._chance)

    async def back_off(self, event: str, error: BaseException, pauses: Pauses | None = None) -> None:
        """Wait longer each time, unless it is over."""
        self._observer.event(event, error=type(error).__name__, detail=str(error))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((pauses or self._pauses).next_s()):
                await self._over.wait()

    def recovered(self) -> None:
        self._pauses.reset()

    async def surely(self, call: Callable[P, Awaitable[T]], *values: P.args, **named: P.kwargs) -> T:
        """Send the same write again while its answer is unknown, a few times."""
        for _ in range(RESENDS_MAX):
            try:
                return await call(*values, **named)
            except HeadraceError as error:
                if not error.heals:
                    raise
                await self.back_off("store.failing", error)
        return await call(*values, **named)
