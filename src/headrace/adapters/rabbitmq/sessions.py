"""One session of consuming: a channel, the messages that came on it, and who has them.

Delivery tags belong to a channel, so everything here ends with it: what was not acknowledged comes again in another
session, under a higher fence. Acknowledgements are put together: everything below the oldest message that is still in
somebody's hands is one frame, whatever is above it has its own, so that several lanes may finish in any order.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from headrace.adapters.rabbitmq.channels import SinkChannel
from headrace.adapters.rabbitmq.codec import Arrived
from headrace.adapters.rabbitmq.messages import wait_of

LINGER_S = 0.002
MORE_S = 0.1


class ConsumerSession:
    """The sink of one consuming channel. `held` are all messages that are not acknowledged, oldest first."""

    def __init__(self, queue: str, fence: int, ring: Callable[[], None]) -> None:
        self.queue, self.fence, self._ring = queue, fence, ring
        self.held: dict[int, Arrived] = {}
        self._ready: deque[Arrived] = deque()
        self._delayed: list[tuple[float, int]] = []
        self._newest = 0
        self._news = asyncio.Event()
        self.window, self._consumer = 0, ""
        self.ended = False
        self.proven_at = 0.0

    # What the channel tells

    def arrived(self, message: Arrived) -> None:
        self.held[message.tag] = message
        self._newest = message.tag
        wait_s = wait_of(message, time.time())
        if wait_s > 0:
            heappush(self._delayed, (time.monotonic() + wait_s, message.tag))
            return
        self._ready.append(message)
        if not self._news.is_set():
            self._news.set()
            self._ring()

    def returned(self, message: Arrived) -> None:
        """Nothing is published here."""

    def confirmed(self, tag: int, multiple: bool, accepted: bool) -> None:
        """Nothing is published here."""

    def end(self, *_: Any) -> None:
        """The channel is gone, or its consumer is: nothing that came on it is ours any more."""
        self.ended = True
        self.held.clear()
        self._ready.clear()
        self._delayed.clear()
        self._news.set()
        self._ring()

    # Consuming

    async def consume(self, channel: SinkChannel, window: int) -> None:
        """Let so many messages come ahead of their acknowledgement. Again, with more: what came before stays."""
        consumer = f"headrace-{self.fence}-{window}"
        driver = channel.driver
        await driver.basic_qos(prefetch_count=window)
        await driver.basic_consume(self.queue, channel.heard, consumer_tag=consumer)
        if self._consumer:
            await driver.basic_cancel(self._consumer)
        self.window, self._consumer = window, consumer

    @property
    def in_hand(self) -> int:
        """Messages that somebody works on, or that wait for their time."""
        return len(self.held) - len(self._ready)

    @property
    def delayed(self) -> int:
        return len(self._delayed)

    @property
    def ready(self) -> int:
        return len(self._ready)

    async def wait(self, seconds: float) -> None:
        """Until something is there, for at most so long."""
        self._release_due()
        if self._ready or self.ended:
            return
        wait_s = self.next_due_s()
        if await self.more(seconds if wait_s is None else min(seconds, wait_s)):
            # Messages come in bursts: the rest of this one is on its way.
            await asyncio.sleep(LINGER_S)

    async def more(self, seconds: float = MORE_S) -> bool:
        """Until another message comes, for at most so long."""
        self._news.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    def take(self, room: int) -> list[Arrived]:
        self._release_due()
        ready = self._ready
        return [ready.popleft() for _ in range(min(room, len(ready)))]

    def next_due_s(self) -> float | None:
        """When the next delayed message may be handled."""
        return max(0.0, self._delayed[0][0] - time.monotonic()) if self._delayed else None

    def _release_due(self) -> None:
        now = time.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            message = self.held.get(heappop(self._delayed)[1])
            if message is not None:
                self._ready.append(message)

    # Ending

    def knows(self, fence: int, tag: int) -> bool:
        """Whether this message came here. It may be dealt with already."""
        return not self.ended and fence == self.fence and tag <= self._newest

    def acknowledge(self, tags: Sequence[int]) -> list[tuple[int, bool]]:
        """These are dealt with: what is to be told to the broker, as (tag, and all below it?)."""
        held = self.held
        gone = [tag for tag in tags if held.pop(tag, None) is not None]
        oldest = next(iter(held), self._newest + 1)
        below = [tag for tag in gone if tag < oldest]
        answers = [(max(below), len(below) > 1)] if below else []
        return answers + [(tag, False) for tag in gone if tag > oldest]

    def give_back(self, tags: Sequence[int]) -> list[int]:
        """These go back to the queue: those of them that are not dealt with."""
        return [tag for tag in tags if self.held.pop(tag, None) is not None]
