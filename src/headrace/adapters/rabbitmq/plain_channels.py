"""Plain mode: a channel of the driver as it is, without a tap in the stream.

The driver takes every frame apart and makes a task for every message, which costs ten times as much. It is here for
those who suspect the tap, run a driver that it does not fit, or count too few messages to care: the bus above it is the
same, and keeps the same contract.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from aiormq import Connection
from aiormq.abc import AbstractChannel, DeliveredMessage
from aiormq.exceptions import DeliveryError, PublishError
from pamqp.commands import Basic

from headrace.adapters.rabbitmq.channels import BROKEN
from headrace.adapters.rabbitmq.codec import Arrived, Outgoing, short
from headrace.adapters.rabbitmq.messages import write_any
from headrace.adapters.rabbitmq.taps import FrameSink


class WrittenProperties(Basic.Properties):
    """Properties that are written already."""

    def __init__(self, message: Outgoing) -> None:
        super().__init__(message_id=message.message_id)
        self._written = message.written

    def marshal(self) -> bytes:
        return self._written


class PlainChannel:
    """`channels.SinkChannel` by the driver's own calls."""

    def __init__(self, connection: Connection, driver: AbstractChannel, sink: FrameSink) -> None:
        self.driver, self.connection, self._sink = driver, connection, sink
        self._turn = asyncio.Lock()
        self._sent_count = 0
        self._on_the_way: dict[str, asyncio.Task[None]] = {}

    @property
    def is_closed(self) -> bool:
        return self.driver.is_closed or not self.connection.is_opened

    async def heard(self, message: DeliveredMessage) -> None:
        delivery = message.delivery
        assert isinstance(delivery, Basic.Deliver), "of a consumer"
        written = write_any(message.header.properties)
        tag, redelivered = delivery.delivery_tag or 0, bool(delivery.redelivered)
        self._sink.arrived(
            Arrived(tag, redelivered, delivery.exchange, delivery.routing_key or "", written, message.body)
        )

    async def send(self, messages: Sequence[Outgoing], sent: Callable[[], None]) -> None:
        for message in messages:
            short(message.exchange), short(message.routing_key)
        # To its end, also when nobody waits any more: what was numbered and not sent would shift all that follow.
        await asyncio.shield(asyncio.ensure_future(self._send_all(messages, sent)))

    async def _send_all(self, messages: Sequence[Outgoing], sent: Callable[[], None]) -> None:
        async with self._turn:
            sent()
            for message in messages:
                # The driver knows what comes back by its id: the same one is sent again when it was answered.
                if (before := self._on_the_way.get(message.message_id)) is not None:
                    await asyncio.wait((before,))
                self._sent_count += 1
                sending = asyncio.create_task(self._send(message, self._sent_count))
                self._on_the_way[message.message_id] = sending

    async def _send(self, message: Outgoing, number: int) -> None:
        try:
            await self.driver.basic_publish(
                message.body,
                exchange=message.exchange,
                routing_key=message.routing_key,
                properties=WrittenProperties(message),
                mandatory=True,
            )
        except PublishError:
            self._sink.returned(Arrived(0, False, message.exchange, message.routing_key, message.written))
        except DeliveryError:
            self._sink.confirmed(number, False, False)
            return
        except (*BROKEN, asyncio.CancelledError):
            # The channel is gone, and whoever waits for confirmations is told by its end.
            return
        finally:
            del self._on_the_way[message.message_id]
        self._sink.confirmed(number, False, True)

    async def ack(self, tags: Iterable[tuple[int, bool]]) -> None:
        for tag, below in tags:
            await self.driver.basic_ack(tag, multiple=below)

    async def nack(self, tags: Iterable[int]) -> None:
        for tag in tags:
            await self.driver.basic_nack(tag)
