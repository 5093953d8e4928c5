"""One call of a handler, within its time and within the hold of its item."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from headrace.core.outcomes import Outcome
from headrace.core.sources import HeldItem
from headrace.runtime.answers import item_answer
from headrace.runtime.fenced import Fenced
from headrace.runtime.interruptions import interrupts
from headrace.runtime.judgement import HandlerTimeout
from headrace.runtime.sources.calls import SourceCalls
from headrace.runtime.sources.context import SourceContext
from headrace.runtime.sources.holds import Hold
from headrace.runtime.sources.options import SourceOptions
from headrace.runtime.yard import Why

SourceHandler = Callable[[Any, SourceContext], Any]
Answer = Outcome | BaseException | None


class HandlerRun:
    """Runs the handler for one hold. `on_hung` is given the task of a handler that swallowed its cancellation."""

    def __init__(
        self,
        hold: Hold,
        calls: SourceCalls,
        handler: SourceHandler,
        options: SourceOptions,
        on_hung: Callable[[asyncio.Task[Answer]], None],
    ) -> None:
        self._hold, self._calls, self._handler, self._options = hold, calls, handler, options
        self._on_hung = on_hung
        self._task: asyncio.Task[Answer] | None = None
        self.began_at = calls.now()
        self._timeout_s = _timeout_s(hold.held, options)
        self.context = SourceContext(hold, calls, self.began_at + self._timeout_s)

    async def answer(self) -> Answer | Why:
        """What the handler answered or raised; or why it was stopped without having said anything that counts."""
        task = self._task = asyncio.get_running_loop().create_task(self.fenced(self._call()))
        # One that was ended before its first step ends with an error that nobody asks for.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            why = await self._watch(task)
            if why is not None:
                await self._stop(task)
        except asyncio.CancelledError:
            # The worker itself is ended.
            self.context.closed = True
            task.cancel()
            raise
        if why is Why.TIMEOUT:
            return self._timeout(task)
        if why is None and self._hold.over():
            # It was cut off, or came to its end too late to be heard.
            return Why.LOST
        return why or task.result()

    def fenced(self, call: Coroutine[Any, Any, Answer]) -> Coroutine[Any, Any, Answer]:
        """The handler, with the clock asked before each step: none after the hold, none after it was given up."""
        return Fenced(call, lambda: self.context.closed or self._hold.over())

    async def _watch(self, task: asyncio.Task[Answer]) -> Why | None:
        """Until the handler ends, None, or has to stop."""
        hold, ends_at = self._hold, self.began_at + self._timeout_s
        while not task.done():
            now = self._calls.now()
            if hold.interrupted.done():
                return hold.interrupted.result()
            if now >= hold.drop_at:
                hold.lose("not_renewed")
                return Why.LOST
            if now >= ends_at:
                return Why.TIMEOUT
            until = min(hold.drop_at, ends_at) - now
            watched: list[asyncio.Future[Any]] = [task, hold.interrupted]
            await asyncio.wait(watched, timeout=until, return_when=asyncio.FIRST_COMPLETED)
        return None

    async def _stop(self, task: asyncio.Task[Answer]) -> None:
        task.cancel()
        await asyncio.wait([task], timeout=min(self._options.grace_s, self._hold.left_s))
        self.context.closed = True
        if not task.done():
            self._on_hung(task)

    async def _call(self) -> Answer:
        options = self._options
        try:
            return await item_answer(
                options.name, self._handler(self._hold.held.payload, self.context), options.returns
            )
        except BaseException as error:  # a handler may raise anything, and cancel itself: that is judged, not passed on
            if interrupts(error, self._task):
                raise
            return error

    def _timeout(self, task: asyncio.Task[Answer]) -> HandlerTimeout:
        """A timeout with where the handler stood when it was stopped."""
        if not task.done():
            words = f"no outcome after {self._timeout_s:g} s, and it did not end when it was cancelled"
            return HandlerTimeout(words)
        timeout = HandlerTimeout(f"no outcome after {self._timeout_s:g} s")
        if not task.cancelled() and task.exception() is None and isinstance(stopped := task.result(), BaseException):
            timeout.__cause__ = stopped
        return timeout


def _timeout_s(held: HeldItem, options: SourceOptions) -> float:
    return options.timeout_s if held.timeout_s is None else held.timeout_s
