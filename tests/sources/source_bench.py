"""Workers of a source in memory, in virtual time: a test of half a minute takes no time, and nothing is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

from headrace.core.retry import RetryPolicy
from headrace.runtime.seams import Seams
from headrace.sources import SourceContext, SourceOptions, SourceWorker
from headrace.testing.memory_source import MemorySource
from headrace.testing.simulation.loop import VirtualLoop
from headrace.testing.simulation.seams import CountedIdentity, VirtualClock, VirtualThreads

T = TypeVar("T")
OPTIONS = SourceOptions(name="jobs", hold_s=3.0, poll_s=0.5, timeout_s=60.0, retry=RetryPolicy(first_s=1.0))


async def nothing(_payload: Any, _context: SourceContext) -> None:
    """A handler that has nothing to do."""


async def take(seconds: float) -> None:
    """Work that takes so long."""
    done = asyncio.get_running_loop().create_future()
    timer = asyncio.get_running_loop().call_later(seconds, lambda: done.done() or done.set_result(None))
    try:
        await done
    finally:
        timer.cancel()


class SourceBench:
    """A loop in virtual time, a source in memory on its clock, and workers for it."""

    def __init__(self, make: Callable[[VirtualClock], MemorySource] = MemorySource) -> None:
        self.loop = VirtualLoop(Random(7))
        self.clock = VirtualClock(self.loop)
        self.source = make(self.clock)
        self._identity = CountedIdentity("worker")

    def worker(self, handler: Any, **changes: Any) -> SourceWorker:
        chance = Random(7)
        threads = VirtualThreads(self.loop, self.loop.system, chance)
        seams = Seams(self.clock, chance, self._identity, threads)
        return SourceWorker(self.source, handler, replace(OPTIONS, **changes), seams)

    def run(self, story: Coroutine[Any, Any, T]) -> T:
        asyncio.set_event_loop(self.loop)
        try:
            return self.loop.run_until_complete(story)
        finally:
            asyncio.set_event_loop(None)
            self.close()

    def close(self) -> None:
        if not self.loop.is_closed():
            self.loop.bury()

    async def serve(self, worker: SourceWorker, seconds: float) -> None:
        """Run a worker for so long and drain it."""
        self.loop.call_later(seconds, worker.drain)
        await worker.run()

    async def until(self, condition: Callable[[], object], seconds: float = 120.0) -> None:
        """Until something is true; the time is virtual."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not condition():
                    await take(0.01)
        assert condition(), f"not within {seconds} s"
