"""The way of files into one sink, with a watch over it: a sink that acknowledges nothing is away.

What is away is told from what is slow by the sink as a whole: as long as it acknowledges anything, of whichever file,
those that wait for their turn wait on. When it is away a circuit breaker lets one file try once per pause; the others
are told at once, so that their places are free for the other sink.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from headrace.errors import HeadraceError, OperatorError, Unreachable
from headrace.services import Backoff, CircuitBreaker
from headrace_pm.kafka.checkpoints import Checkpoint
from headrace_pm.kafka.records import FileRevision
from headrace_pm.sinks.counter_sink import Batches, CounterSink

# A try costs a file its place for as long as the watch waits, so pauses are of that order.
TRIES = Backoff(1.0, 30.0)
log = structlog.get_logger("headrace_pm.work")


class SinkAway(Unreachable):
    """A sink does not take anything now; no file is at fault."""


def is_away(error: HeadraceError) -> bool:
    """Whether the sink is at fault and not the file: also if an operator has to act, such as for a missing right."""
    return error.heals or isinstance(error, OperatorError)


def _ended_late(writing: asyncio.Future[Checkpoint]) -> None:
    """Nobody wants to know any more."""
    if not writing.cancelled():
        writing.exception()


class SinkLane:
    """One sink of the worker."""

    def __init__(
        self,
        sink: CounterSink,
        wait_s: float,
        breaker: CircuitBreaker | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sink, self.name, self._wait_s, self._now = sink, sink.name, wait_s, now
        self._breaker = breaker or CircuitBreaker(backoff=TRIES)
        self._tries = 0
        self._is_trying = False
        self._failed_by = ""

    @property
    def is_away(self) -> bool:
        return not self._breaker.closed

    def rows(self) -> int:
        """As the sink has them."""
        return self.sink.rows

    async def answers(self) -> None:
        """`SinkAway` while it is taken for away."""
        if self.is_away:
            raise SinkAway(self._failed_by)

    async def write(self, file: FileRevision, batches: Batches) -> Checkpoint:
        """As the sink does; `SinkAway` if it is."""
        if self._breaker.open_at(self._now()) or (self.is_away and self._is_trying):
            raise SinkAway(f"{self._failed_by}; it is asked again soon")
        self._tries += 1
        number, is_trial = self._tries, self.is_away
        self._is_trying = self._is_trying or is_trial
        self._breaker.begin(number)
        try:
            done = await self._watched(file, batches)
        except HeadraceError as error:
            if not is_away(error):
                self._passed(number)
                raise
            self._fail(error)
            raise SinkAway(self._failed_by) from error
        finally:
            if is_trial:
                self._is_trying = False
        self._passed(number)
        return done

    def _passed(self, number: int) -> None:
        if self._breaker.passed(number):
            log.info("sink.recovered", sink=self.name)

    def _fail(self, error: HeadraceError) -> None:
        self._failed_by = f"{self.name} is away: {error}"
        pause_s, begins = self._breaker.fail(self._now())
        if begins:
            log.warning("sink.away", sink=self.name, error=str(error), again_after_s=round(pause_s, 3))

    async def _watched(self, file: FileRevision, batches: Batches) -> Checkpoint:
        loop = asyncio.get_running_loop()
        began = loop.time()
        writing = asyncio.ensure_future(self.sink.write(file, batches))
        try:
            while not writing.done():
                left_s = max(began, self.sink.moved_at) + self._wait_s - loop.time()
                if left_s <= 0:
                    raise SinkAway(f"it has acknowledged nothing for {self._wait_s:g} s")
                await asyncio.wait((writing,), timeout=left_s)
            return writing.result()
        finally:
            if not writing.done():
                writing.cancel()
                # One that does not end has lost its file: nothing of what it writes later counts.
                await asyncio.wait((writing,), timeout=self._wait_s)
                if writing.done():
                    await asyncio.gather(writing, return_exceptions=True)
                else:
                    log.error("sink.hangs", sink=self.name, file=file.name)
                    writing.add_done_callback(_ended_late)
