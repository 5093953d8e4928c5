"""Something that serves for as long as a block of the program runs: a worker, a relay, an inlet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar


class Drainable(Protocol):
    def drain(self) -> None:
        """Take nothing more; `run` returns when what is in hand is dealt with."""

    async def run(self) -> None:
        """Serve until drained. Raises what made going on impossible."""


S = TypeVar("S", bound=Drainable)


@asynccontextmanager
async def beside(service: S, stop_now: Callable[[], None] | None = None) -> AsyncIterator[S]:
    """Run a service beside the block. It drains at the end of the block, and stops at once if the block raises. What
    makes going on impossible for the service ends the block with that error."""
    block, running = asyncio.current_task(), asyncio.ensure_future(service.run())

    def tell(done: asyncio.Future[None]) -> None:
        if _failed(done) is not None and block is not None:
            block.cancel()

    running.add_done_callback(tell)
    try:
        yield service
    except BaseException:
        (stop_now or running.cancel)()
        await asyncio.wait([running])
        error = _failed(running)
        if error is None or block is None:
            raise
        block.uncancel()
        raise error from None
    # From here on the block waits for the service itself: to cancel it would hide what went wrong.
    running.remove_done_callback(tell)
    service.drain()
    await running


def _failed(running: asyncio.Future[None]) -> BaseException | None:
    return running.exception() if running.done() and not running.cancelled() else None
