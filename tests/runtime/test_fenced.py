"""A fenced coroutine takes no step after its hold, whatever wakes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from waiting import turn

from headrace.runtime.fenced import Fenced, HoldEnded


class Walker:
    """Waits, and notes every step that it takes afterwards."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.over = False
        self.news: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def walk(self) -> None:
        try:
            await self.news
            self.steps.append("answer")
        except ValueError:
            self.steps.append("error")

    async def walk_within_its_time(self) -> None:
        try:
            async with asyncio.timeout(0.0):
                await self.news
        except TimeoutError:
            self.steps.append("timeout")

    async def ends(self, walk: Coroutine[Any, Any, None], wake: Callable[[], None] = lambda: None) -> None:
        """It waits, its hold ends, and it is woken."""
        walking = asyncio.ensure_future(Fenced(walk, lambda: self.over))
        await turn()
        self.over = True
        wake()
        with pytest.raises(HoldEnded):
            await walking
        assert self.steps == []


async def test_an_answer_is_not_heard_after_the_hold() -> None:
    walker = Walker()
    await walker.ends(walker.walk(), lambda: walker.news.set_result(None))


async def test_an_error_is_not_heard_after_the_hold() -> None:
    walker = Walker()
    await walker.ends(walker.walk(), lambda: walker.news.set_exception(ValueError()))


async def test_a_timeout_of_its_own_is_not_heard_after_the_hold() -> None:
    walker = Walker()
    await walker.ends(walker.walk_within_its_time())


async def test_before_it_everything_is_heard() -> None:
    walker = Walker()
    walker.news.set_exception(ValueError())
    await Fenced(walker.walk(), lambda: walker.over)
    assert walker.steps == ["error"]
