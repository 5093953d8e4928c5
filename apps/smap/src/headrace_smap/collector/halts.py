"""When a crawl must stop in the middle of a page: its project was cancelled, sealed or deleted, or the process stops.

Nothing depends on it: a page that comes too late is refused by the database. It only saves the wait.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import TypeVar

from headrace.errors import suppress_healing
from headrace.services import rest
from headrace_smap.database import Database

LOOK_S = 1.0
GRACE_S = 5.0
T = TypeVar("T")


class Halted(Exception):
    """There is no use in waiting for the page."""


class Halts:
    """The projects that this process crawls, and a bell for each."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._bells: dict[str, tuple[asyncio.Event, int]] = {}
        self.stopping = asyncio.Event()

    @contextlib.contextmanager
    def watching(self, project: str) -> Iterator[asyncio.Event]:
        """The bell of a project for as long as the block runs."""
        bell, count = self._bells.get(project, (asyncio.Event(), 0))
        self._bells[project] = (bell, count + 1)
        if self.stopping.is_set():
            bell.set()
        try:
            yield bell
        finally:
            bell, count = self._bells[project]
            if count > 1:
                self._bells[project] = (bell, count - 1)
            else:
                del self._bells[project]

    async def run(self, stop: asyncio.Event) -> None:
        """Ring for projects that want no more posts, and for all when the process stops."""
        while not stop.is_set():
            await rest(stop, LOOK_S)
            if self._bells and not stop.is_set():
                with suppress_healing():
                    for (project,) in await self._database.rows("crawl_shut", projects=list(self._bells)):
                        self._ring(project)
        self.stopping.set()
        for project in list(self._bells):
            self._ring(project)

    def _ring(self, project: str) -> None:
        if project in self._bells:
            self._bells[project][0].set()


async def unless_halted(work: Awaitable[T], bell: asyncio.Event, limit_s: float) -> T:
    """What the work brings. `Halted`: the bell rang first; `TimeoutError`: it takes too long."""
    doing, ringing = asyncio.ensure_future(work), asyncio.ensure_future(bell.wait())
    try:
        done, _ = await asyncio.wait((doing, ringing), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if doing in done:
            return doing.result()
        if ringing in done:
            raise Halted
        raise TimeoutError(f"no page within {limit_s:g} s")
    finally:
        for task in (doing, ringing):
            task.cancel()
        # A crawler that does not let itself be cancelled is left to itself.
        await asyncio.wait((doing, ringing), timeout=GRACE_S)
        if doing.done() and not doing.cancelled():
            doing.exception()


@contextlib.asynccontextmanager
async def closing(pages: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """A generator that is left early is closed here and now, not by the garbage collector."""
    try:
        yield pages
    finally:
        close = getattr(pages, "aclose", None)
        if close is not None:
            await close()
