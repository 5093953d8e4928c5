"""A channel whose messages go straight to a sink, and which sends many frames as one write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from aiormq import ChannelInvalidStateError, Connection
from aiormq.abc import AbstractChannel, ChannelFrame

from headrace.adapters.rabbitmq import codec
from headrace.adapters.rabbitmq.codec import Outgoing
from headrace.adapters.rabbitmq.taps import Assembly, FrameSink, Tap

WRITE_S_MAX = 10.0


class QuickChannel:
    """`driver` is the channel itself, for calls."""

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

    def packed(self, messages: Sequence[Outgoing]) -> bytes:
        """Messages as they are written. A name that cannot be written is the caller's error."""
        number, frame_max = self.driver.number, self.connection.connection_tune.frame_max
        return b"".join(codec.packed(number, message, frame_max) for message in messages)

    async def ack(self, tags: Iterable[tuple[int, bool]]) -> None:
        await self.write(codec.packed_acks(self.driver.number, tags))

    async def nack(self, tags: Iterable[int]) -> None:
        await self.write(codec.packed_nacks(self.driver.number, tags))

    async def write(self, payload: bytes, written: Callable[[], None] = lambda: None) -> None:
        """Hand bytes to the connection's writer, in the order of the calls; `written` is called when that is done, and
        not at all if it fails or is cancelled before."""
        async with self._writing:
            if self.is_closed:
                raise ChannelInvalidStateError(f"{self.driver!r} is closed")
            # A writer that has died takes nothing more, and nobody says so.
            async with asyncio.timeout(WRITE_S_MAX):
                await self.connection.write_queue.put(ChannelFrame(payload=payload, should_close=False))
                written()
