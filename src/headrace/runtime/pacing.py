"""The pace of a loop that serves until it is drained: woken by rings, slower while the other side does not answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from headrace.core.errors import HeadraceError
from headrace.runtime.observe import Observer
from headrace.runtime.seams import Seams

PAUSE_S_MIN, PAUSE_S_MAX = 0.05, 2.0
RESENDS_MAX = 5
T = TypeVar("T")
P = ParamSpec("P")


class Pace:
    """When a loop goes on, and when it ends."""

    def __init__(self, seams: Seams, observer: Observer) -> None:
        self._seams, self._observer = seams, observer
        self._bell, self._over = asyncio.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pause_s = PAUSE_S_MIN

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

    async def back_off(self, event: str, error: BaseException) -> None:
        """Wait longer each time, unless it is over."""
        self._observer.event(event, error=type(error).__name__, detail=str(error))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pause_s * (0.5 + self._seams.chance.random() / 2)):
                await self._over.wait()
        self._pause_s = min(self._pause_s * 2, PAUSE_S_MAX)

    def recovered(self) -> None:
        self._pause_s = PAUSE_S_MIN

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
