"""Calling a handler: what it answers, what it raises, and how long it may take."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import structlog

from headrace.core.deliveries import Delivery
from headrace.core.errors import HeadraceError, OperatorError
from headrace.core.events import Event
from headrace.core.outcomes import Dead, Retry, Snooze
from headrace.core.traces import TRACEPARENT, read_traceparent
from headrace.runtime.consumers.answers import Answer, BatchHandler, answer_each
from headrace.runtime.failed_attempts import in_words
from headrace.runtime.interruptions import interrupts
from headrace.runtime.pacing import Pace


class BatchCalls:
    """Calls one handler, any number of times at once. A call may take `timeout_s` for each of its messages."""

    def __init__(self, handle: BatchHandler, timeout_s: float, pace: Pace, commits: bool) -> None:
        self._handle, self._timeout_s, self._pace, self._commits = handle, timeout_s, pace, commits

    async def answers(self, batch: Sequence[Delivery]) -> Sequence[Answer] | None:
        """What becomes of each message. None: they failed, and it is to be found out whose fault that is. Raises what
        only an operator can change."""
        pauses, lane = self._pace.new_pauses(), asyncio.current_task()
        while True:
            try:
                return await self._called(batch)
            except (Dead, Retry, Snooze) as outcome:
                return answer_each([outcome] * len(batch), len(batch), self._commits)
            except BaseException as error:  # a handler may raise anything
                if _is_foreign(error, lane):
                    raise
                if isinstance(error, HeadraceError) and error.heals:
                    await self._pace.back_off("batch.failing", error, pauses)
                    if self._pace.draining:
                        return [Snooze(0.0)] * len(batch)
                elif isinstance(error, OperatorError):
                    raise
                else:
                    return [_failure(error)] if len(batch) == 1 else None

    async def _called(self, batch: Sequence[Delivery]) -> Sequence[Answer]:
        with _logged_trace(batch):
            async with asyncio.timeout(self._timeout_s * len(batch)):
                answers = await self._handle(batch)
        return answer_each(answers, len(batch), self._commits)


def _failure(error: BaseException) -> Retry:
    failed = Retry(in_words(error))
    failed.__cause__ = error
    return failed


def _is_foreign(error: BaseException, lane: asyncio.Task[Any] | None) -> bool:
    """Whether an error is not the handler's: its lane is being ended, or interrupted from outside. What the handler
    waited for may have been cancelled as well; that is its own affair, and a lane that ended of it would be missed by
    nobody while its message is held for ever."""
    if isinstance(error, asyncio.CancelledError):
        return lane is not None and lane.cancelling() > 0
    return interrupts(error, lane)


def trace_of(event: Event) -> str:
    """The trace that an event of anybody belongs to, if it names one."""
    return read_traceparent(str((event.headers or {}).get(TRACEPARENT, "")))


@contextlib.contextmanager
def _logged_trace(batch: Sequence[Delivery]) -> Iterator[None]:
    """Log lines name the trace that these messages belong to, if it is one."""
    traces = {trace_of(delivery.event) for delivery in batch}
    known = {TRACEPARENT: next(iter(traces))} if len(traces) == 1 and "" not in traces else {}
    with structlog.contextvars.bound_contextvars(**known):
        yield
