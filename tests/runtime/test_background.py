"""A service beside a block: it lives as long as the block, and neither hides what went wrong with the other."""

from __future__ import annotations

import asyncio

import pytest
from waiting import turn

from headrace.runtime.background import beside


class Echo:
    """Serves until drained; `fails` says when it gives up."""

    def __init__(self, fails: str = "never") -> None:
        self._over, self.fails, self.ended = asyncio.Event(), fails, ""

    def drain(self) -> None:
        self._over.set()

    async def run(self) -> None:
        try:
            if self.fails == "at once":
                raise ZeroDivisionError
            await self._over.wait()
            if self.fails == "draining":
                raise ZeroDivisionError
            self.ended = "drained"
        except asyncio.CancelledError:
            self.ended = "cancelled"
            raise


async def test_a_service_drains_at_the_end_of_its_block() -> None:
    async with beside(Echo()) as service:
        await turn()
    assert service.ended == "drained"


async def test_a_service_stops_when_its_block_raises() -> None:
    with pytest.raises(RuntimeError, match="enough"):
        async with beside(Echo()) as service:
            await turn()
            raise RuntimeError("enough")
    assert service.ended == "cancelled"


@pytest.mark.parametrize("fails", ["at once", "draining"])
async def test_what_ends_a_service_ends_its_block_with_that_error(fails: str) -> None:
    with pytest.raises(ZeroDivisionError):
        async with beside(Echo(fails)) as service:
            if service.fails == "at once":
                await asyncio.Event().wait()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await turn()


async def test_a_block_that_is_cancelled_stays_cancelled() -> None:
    started, service = asyncio.Event(), Echo()

    async def block() -> None:
        async with beside(service):
            started.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(block())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert service.ended in ("cancelled", "")
