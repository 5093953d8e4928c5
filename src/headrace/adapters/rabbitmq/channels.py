"""Channels whose messages go to a sink. The quick one takes them out of the stream, and sends many frames at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from aiormq import AMQPError, ChannelInvalidStateError, Connection
from aiormq.abc import AbstractChannel, ChannelFrame, DeliveredMessage

from headrace.adapters.rabbitmq import codec
from headrace.adapters.rabbitmq.codec import Outgoing
from headrace.adapters.rabbitmq.taps import Assembly, FrameSink, Tap

WRITE_S_MAX = 10.0
BROKEN = (AMQPError, OSError, ChannelInvalidStateError, RuntimeError, TimeoutError)
"""What the driver raises when a channel or its connection is gone."""


class SinkChannel(Protocol):
    """`driver` is the channel itself, for calls; a consumer on it is made with the callback `heard`."""

    @property
    def driver(self) -> AbstractChannel: ...

    @property
    def connection(self) -> Connection: ...

    @property
    def is_closed(self) -> bool: ...

    async def heard(self, message: DeliveredMessage) -> None:
        """A message that the driver delivers."""

    async def send(self, messages: Sequence[Outgoing], sent: Callable[[], None]) -> None:
        """Hand messages to the connection, in this order; `sent` is called when that is certain, and not at all if it
        fails before. The sink is told of each by the number of messages that were sent before it. A name that cannot be
        written is the caller's error."""

    async def ack(self, tags: Iterable[tuple[int, bool]]) -> None:
        """Acknowledge a message, or it and all below."""

    async def nack(self, tags: Iterable[int]) -> None:
        """Give messages back."""


class QuickChannel:
    """`SinkChannel` by a tap."""

    def __init__(self, connection: Connection, driver: AbstractChannel, tap: Tap, sink: FrameSink) -> None:
        self.driver, self.connection = driver, connection
        self._writing = asyncio.Lock()
        assembly = tap.assemblies[driver.number] = Assembly(sink)

        def forget(_: object) -> None:
            # The number may belong to the next channel already.
            if tap.assemblies.get(driver.number) is assembly:
                del tap.assemblies[driver.number]

        driver.closing.add_done_callback(forget)

    @property
    def is_closed(self) -> bool:
        return self.driver.is_closed or not self.connection.is_opened

    async def heard(self, message: DeliveredMessage) -> None:
        """The driver wants somebody to call; messages never get that far."""

    async def send(self, messages: Sequence[Outgoing], sent: Callable[[], None]) -> None:
        number, frame_max = self.driver.number, self.connection.connection_tune.frame_max
        await self._write(b"".join(codec.packed(number, message, frame_max) for message in messages), sent)

    async def ack(self, tags: Iterable[tuple[int, bool]]) -> None:
        await self._write(codec.packed_acks(self.driver.number, tags))

    async def nack(self, tags: Iterable[int]) -> None:
        await self._write(codec.packed_nacks(self.driver.number, tags))

    async def _write(self, payload: bytes, written: Callable[[], None] = lambda: None) -> None:
        """Hand bytes to the connection's writer, in the order of the calls; `written` is called when that is done, and
        not at all if it fails or is cancelled before."""
        async with self._writing:
            if self.is_closed:
                raise ChannelInvalidStateError(f"{self.driver!r} is closed")
            # A writer that has died takes nothing more, and nobody says so.
            async with asyncio.timeout(WRITE_S_MAX):
                await self.connection.write_queue.put(ChannelFrame(payload=payload, should_close=False))
                written()
