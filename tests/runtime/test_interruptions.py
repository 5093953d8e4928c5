"""Which errors end a lane together with its handler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from waiting import turn

from headrace.runtime.interruptions import interrupts


class Lane:
    """Runs one handler, and notes whether it must end of what came out of it."""

    def __init__(self) -> None:
        self.ends: bool | None = None

    async def run(self, handler: Callable[[], Awaitable[object]]) -> None:
        task = asyncio.current_task()
        try:
            await handler()
        except BaseException as error:
            self.ends = interrupts(error, task)


@pytest.mark.parametrize(
    ("error", "ends"),
    [(GeneratorExit(), False), (SystemExit(), False), (ValueError(), False), (KeyboardInterrupt(), True)],
    ids=lambda each: type(each).__name__,
)
async def test_a_lane_ends_of_an_interrupted_process_alone(error: BaseException, ends: bool) -> None:
    async def handler() -> None:
        raise error

    lane = Lane()
    await lane.run(handler)
    assert lane.ends is ends


async def test_a_lane_that_another_task_closes_ends() -> None:
    lane = Lane()
    task = asyncio.create_task(lane.run(asyncio.Event().wait))
    await turn()
    task.get_coro().close()
    assert lane.ends is True
    task.cancel()
    await asyncio.wait([task])


def test_a_lane_that_is_closed_after_its_loop_ends() -> None:
    async def begun() -> asyncio.Task[None]:
        task = asyncio.create_task(lane.run(asyncio.Event().wait))
        await turn()
        return task

    lane, loop = Lane(), asyncio.new_event_loop()
    task = loop.run_until_complete(begun())
    task.get_coro().close()
    assert lane.ends is True
    task.cancel()
    loop.run_until_complete(asyncio.wait([task]))
    loop.close()
