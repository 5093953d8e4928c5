"""A feed: what one subscription brings to this process, through losses of the connection and whatever the broker does.

A session that ended is followed by another with the next `receive`: the queue is declared again, and the session
counts only when the broker has answered that the queue has a consumer. While nothing comes, the broker is asked now and
then whether that is still so: a consumer that silently hears nothing is the classic failure of this kind of client.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from headrace.adapters.rabbitmq.channels import BROKEN, SinkChannel
from headrace.adapters.rabbitmq.codec import Arrived
from headrace.adapters.rabbitmq.lines import Line, quietly
from headrace.adapters.rabbitmq.sessions import ConsumerSession
from headrace.core.errors import HeadraceError, Unreachable

WAIT_S = 0.1
PROVE_EVERY_S = 5.0
WINDOW_MAX = 20_000
PATIENCE_MAX = 64
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reading:
    """How a queue is read: `prefetch` messages come ahead of their acknowledgement, `ring` is called when some came,
    and an idle consumer is proven to be one every `prove_every_s`."""

    prefetch: int
    ring: Callable[[], None]
    prove_every_s: float = PROVE_EVERY_S


class Feed:
    """The sessions of one queue, one at a time. `prepare` sees to it that the queue exists."""

    def __init__(self, line: Line, queue: str, prepare: Callable[[], Awaitable[None]], reading: Reading) -> None:
        self._line, self.queue, self._prepare, self._reading = line, queue, prepare, reading
        self._opening = asyncio.Lock()
        self._session: ConsumerSession | None = None
        self._channel: SinkChannel | None = None
        self._unserved, self._patience = 0, 1

    async def receive(self, room: int) -> tuple[ConsumerSession, list[Arrived]]:
        """Up to `room` messages, after a moment of waiting if there are none."""
        session = await self._open()
        await self._widen(session, room)
        await session.wait(WAIT_S)
        taken = session.take(room)
        if taken:
            self._patience = 1
        elif not session.ended and time.monotonic() - session.proven_at > self._reading.prove_every_s:
            await self.prove(session)
        return session, taken

    @property
    def session(self) -> ConsumerSession | None:
        return self._session

    def session_of(self, fence: int) -> ConsumerSession | None:
        """The session under this fence, if it still lives."""
        session = self._session
        return session if session is not None and session.fence == fence and not session.ended else None

    async def acknowledge(self, session: ConsumerSession, tags: Sequence[int]) -> bool:
        """These are dealt with. False: the session is over, and they come again."""
        channel = self._channel_of(session)
        answers = session.acknowledge(tags)
        return channel is not None and (not answers or await self._told(session, channel.ack(answers)))

    async def give_back(self, session: ConsumerSession, tags: Sequence[int]) -> bool:
        """These go back to the queue. False as above."""
        channel = self._channel_of(session)
        answers = session.give_back(tags)
        return channel is not None and (not answers or await self._told(session, channel.nack(answers)))

    def _channel_of(self, session: ConsumerSession) -> SinkChannel | None:
        return self._channel if session is self._session and not session.ended else None

    async def _told(self, session: ConsumerSession, telling: Awaitable[None]) -> bool:
        """Told to the end, whoever gives up waiting: the session has forgotten these messages, and what is forgotten
        here and not told there would be acknowledged together with a later one."""
        return await asyncio.shield(asyncio.ensure_future(self._tell(session, telling)))

    async def _tell(self, session: ConsumerSession, telling: Awaitable[None]) -> bool:
        try:
            await telling
        except BROKEN:
            session.end()
            return False
        return not session.ended

    async def close(self) -> None:
        """Give everything back."""
        if self._session is not None:
            self._session.end()
        if self._channel is not None:
            await quietly(self._channel.driver)

    async def _open(self) -> ConsumerSession:
        if self._session is not None and not self._session.ended:
            return self._session
        async with self._opening:
            if self._session is not None and not self._session.ended:
                return self._session
            if self._channel is not None:
                await quietly(self._channel.driver)
            await self._prepare()
            fence = max(time.time_ns() // 1_000, self._session.fence + 1 if self._session else 0)
            session = ConsumerSession(self.queue, fence, self._reading.ring)
            channel = await self._line.sink_channel(session, confirms=False)
            channel.driver.closing.add_done_callback(session.end)
            channel.driver.on_consumer_cancel_callbacks.add(session.end)
            self._session, self._channel, self._unserved = session, channel, 0
            await self._call(session, session.consume(channel, self._reading.prefetch))
            await self.prove(session)
            return session

    async def _widen(self, session: ConsumerSession, room: int) -> None:
        """Whoever asks for much while others hold much gets it all the same."""
        wanted = min(WINDOW_MAX, session.in_hand + room)
        if wanted <= session.window or self._channel is None:
            return
        async with self._opening:
            if wanted > session.window and session is self._session and not session.ended:
                await self._call(session, session.consume(self._channel, wanted))

    async def prove(self, session: ConsumerSession) -> None:
        """Ask the broker whether this session really consumes; a session that does not is over."""
        # Said first, so that of several lanes one asks.
        session.proven_at = time.monotonic()
        consumers, waiting = await self.ask(session)
        if not consumers:
            session.end()
            raise Unreachable(f"{self._line.place} has forgotten the consumer of {self.queue}")
        idle = session.ready == 0 and session.in_hand < session.window
        self._unserved = self._unserved + 1 if waiting and idle else 0
        if self._unserved > self._patience:
            # Messages wait and none comes. There may be a reason, such as a queue that serves one consumer only.
            self._patience = min(PATIENCE_MAX, self._patience * 2)
            session.end()

    async def ask(self, session: ConsumerSession) -> tuple[int, int]:
        """Consumers and waiting messages of the queue. What was on its way to us before is here when it is answered."""
        channel = self._channel_of(session)
        if channel is None:
            raise Unreachable(f"{self._line.place} lost the consumer of {self.queue}")
        answer = await self._call(session, channel.driver.queue_declare(self.queue, passive=True))
        return answer.consumer_count or 0, answer.message_count or 0

    async def _call(self, session: ConsumerSession, call: Coroutine[Any, Any, T]) -> T:
        """A call on the session's channel; if it fails the session is over."""
        try:
            return await self._line.call(call)
        except HeadraceError:
            session.end()
            raise
