"""What the tests of the bus on RabbitMQ say and do again and again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import unquote, urlsplit

import aio_pika
from aio_pika.abc import AbstractChannel
from waiting import eventually

from headrace.core.deliveries import Delivery
from headrace.core.errors import TryAgain, Unreachable
from headrace.core.events import Event
from headrace.ports import QueueBus
from headrace.testing.rig.rabbitmq import Queue, RabbitServer

PASSING = (TryAgain, Unreachable)
BACK_S_MAX = 30.0


def vhost_of(url: str) -> str:
    return unquote(urlsplit(url).path[1:])


def pages(*numbers: int) -> list[Event]:
    return [Event(f"m{number}", "page.found", f"body {number}".encode()) for number in numbers]


def names(deliveries: Sequence[Delivery]) -> list[str]:
    return [delivery.event.event_id for delivery in deliveries]


async def take(bus: QueueBus, count: int, queue: str = "pages") -> list[Delivery]:
    """So many deliveries, whatever happens to the connection meanwhile."""
    taken: list[Delivery] = []

    async def enough() -> bool:
        try:
            taken.extend((await bus.receive(queue, "test", count - len(taken), 30.0)).deliveries)
        except PASSING:
            return False
        return len(taken) >= count

    await eventually(enough, lambda: f"{len(taken)} of {count} messages came", BACK_S_MAX)
    return taken


async def surely_publish(bus: QueueBus, events: Sequence[Event]) -> list[bool]:
    """As a caller does: the same again until it is confirmed."""
    answer: list[bool] = []

    async def confirmed() -> bool:
        try:
            answer[:] = await bus.publish(events)
        except PASSING:
            return False
        return True

    await eventually(confirmed, "events are confirmed", BACK_S_MAX)
    return answer


async def holds(server: RabbitServer, url: str, wanted: dict[str, Queue]) -> None:
    """Until the broker says that these queues are so."""
    seen: dict[str, Queue] = {}

    async def same() -> bool:
        found = await asyncio.to_thread(server.queues, vhost_of(url))
        seen.clear()
        seen.update({name: found[name] for name in wanted if name in found})
        return seen == wanted

    await eventually(same, lambda: f"{seen} becomes {wanted}", BACK_S_MAX)


@asynccontextmanager
async def foreign_channel(url: str) -> AsyncIterator[AbstractChannel]:
    """A program of somebody else, on the driver that most use."""
    async with await aio_pika.connect(url) as connection:
        yield await connection.channel()
